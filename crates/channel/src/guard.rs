//! What stands before every adapter: a limited number of calls at once, a circuit breaker, a second try where it is safe,
//! and the counting of all of it. Adapters make one HTTP exchange for each call and know none of this.
//!
//! A second try is made at once, once, with the same values under the same number, and only where it can do nothing twice:
//!
//! | call | second try | because |
//! |---|---|---|
//! | query, refund query | after `Unknown` | it changes nothing |
//! | create | after `Unknown` | the channel keeps one order for our number, and money moves only by the payer's own act; the payer waits for the answer |
//! | refund | never | the channel keeps one refund for our number, so that a job may send it again, after asking; nobody waits for it, and where money leaves we ask first |
//! | close | never | channels disagree about a second close; a job asks what became of the first |
//!
//! It is not made when less than half of the call's time is left, nor when the circuit has opened meanwhile. `RetryLater` and
//! `Rejected` are answers, and are not tried again here.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use pay_types::{ChannelAccount, ChannelCode};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::accounts::Account;
use crate::breaker::{Breaker, Change};
use crate::port::{
    ChannelClient, Closed, CreateOrder, CreateRefund, Created, FindOrder, FindRefund, Outcome, Queried,
    RefundTold,
};

/// Calls at the same time over one account. At a usual 100 ms a call it is 2,500 calls a second, and a channel that hangs
/// holds no more than this many of ours.
pub const CALLS_PER_ACCOUNT_MAX: usize = 256;
/// Tries of one call in all: what a second try does not mend, a third one at once does not either.
const TRIES_MAX: u32 = 2;
/// Shortest and longest pause before a second try, milliseconds: long enough for a far side that is just being changed for
/// another copy, spread so that calls that failed together do not come back together.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 50..=150;

/// The code of calls that were not sent because the circuit is open.
pub const CIRCUIT_OPEN: &str = "CIRCUIT_OPEN";
/// The code of calls that were not sent because all places were taken.
pub const NO_PLACE: &str = "CALLS_PER_ACCOUNT_MAX";

/// Calls over one account, guarded.
#[derive(Debug)]
pub struct Guard {
    inner: Arc<dyn ChannelClient>,
    channel: ChannelCode,
    account: ChannelAccount,
    limit: Duration,
    places: Semaphore,
    breaker: Breaker,
}

/// The kinds of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Create,
    Query,
    Close,
    Refund,
    QueryRefund,
}

impl Call {
    fn label(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Query => "query",
            Self::Close => "close",
            Self::Refund => "refund",
            Self::QueryRefund => "query_refund",
        }
    }

    fn is_query(self) -> bool {
        match self {
            Self::Query | Self::QueryRefund => true,
            Self::Create | Self::Close | Self::Refund => false,
        }
    }

    /// Whether a second try is safe and of use; the reasons are in the module's head.
    fn may_repeat(self) -> bool {
        match self {
            Self::Create | Self::Query | Self::QueryRefund => true,
            Self::Close | Self::Refund => false,
        }
    }
}

impl ChannelClient for Guard {
    fn create<'a>(&'a self, order: &'a CreateOrder) -> BoxFuture<'a, Outcome<Created>> {
        let span =
            tracing::info_span!("channel.create", channel.account = %self.account, pay.no = %order.pay_no);
        self.observed(Call::Create, || self.inner.create(order)).instrument(span).boxed()
    }

    fn query<'a>(&'a self, order: &'a FindOrder) -> BoxFuture<'a, Outcome<Queried>> {
        let span =
            tracing::info_span!("channel.query", channel.account = %self.account, pay.no = %order.pay_no);
        self.observed(Call::Query, || self.inner.query(order)).instrument(span).boxed()
    }

    fn close<'a>(&'a self, order: &'a FindOrder) -> BoxFuture<'a, Outcome<Closed>> {
        let span =
            tracing::info_span!("channel.close", channel.account = %self.account, pay.no = %order.pay_no);
        self.observed(Call::Close, || self.inner.close(order)).instrument(span).boxed()
    }

    fn refund<'a>(&'a self, refund: &'a CreateRefund) -> BoxFuture<'a, Outcome<RefundTold>> {
        let span = tracing::info_span!("channel.refund",
            channel.account = %self.account, pay.no = %refund.pay_no, refund.no = %refund.refund_no);
        self.observed(Call::Refund, || self.inner.refund(refund)).instrument(span).boxed()
    }

    fn query_refund<'a>(&'a self, refund: &'a FindRefund) -> BoxFuture<'a, Outcome<RefundTold>> {
        let span = tracing::info_span!("channel.query_refund",
            channel.account = %self.account, refund.no = %refund.refund_no);
        self.observed(Call::QueryRefund, || self.inner.query_refund(refund)).instrument(span).boxed()
    }
}

impl Guard {
    /// Guards an adapter's calls over `account`; none takes longer than `limit`, waits and second try within it.
    #[must_use]
    pub fn new(inner: Arc<dyn ChannelClient>, account: &Account, limit: Duration) -> Self {
        Self {
            inner,
            channel: account.channel(),
            account: account.account().clone(),
            limit,
            places: Semaphore::new(CALLS_PER_ACCOUNT_MAX),
            breaker: Breaker::new(),
        }
    }

    /// Counts and times a call.
    async fn observed<'a, T>(
        &'a self,
        call: Call,
        exchange: impl Fn() -> BoxFuture<'a, Outcome<T>>,
    ) -> Outcome<T> {
        let begun = Instant::now();
        let outcome = self.tried(call, begun, exchange).await;
        let channel = self.channel.as_str();
        metrics::histogram!("oncepay_channel_call_seconds", "channel" => channel, "call" => call.label())
            .record(begun.elapsed());
        metrics::counter!("oncepay_channel_calls_total",
            "channel" => channel, "call" => call.label(), "outcome" => outcome.label())
        .increment(1);
        match &outcome {
            Outcome::Accepted(_) => {}
            // The opening was told; in an outage every call would tell it again.
            Outcome::RetryLater { code } if code == CIRCUIT_OPEN => {
                tracing::debug!(code, "a call was not sent: the circuit is open");
            }
            Outcome::Rejected { code, .. } | Outcome::RetryLater { code } => {
                tracing::warn!(outcome = outcome.label(), code, "the channel refused a call");
            }
            Outcome::Unknown { why } => {
                tracing::warn!(outcome = "unknown", why, "a call has no known outcome");
            }
        }
        outcome
    }

    /// The call with its tries, from the wait for a place to the last byte of the answer, within the limit.
    async fn tried<'a, T>(
        &'a self,
        call: Call,
        begun: Instant,
        exchange: impl Fn() -> BoxFuture<'a, Outcome<T>>,
    ) -> Outcome<T> {
        // Before the wait: while a channel hangs, all places are taken, and nobody need wait to hear that.
        if self.breaker.refuses(call.is_query()) {
            return retry_later(CIRCUIT_OPEN);
        }
        let Some(_place) = self.place().await else { return retry_later(NO_PLACE) };
        let mut first = match self.once(call, begun, &exchange).await {
            // The circuit opened while this one waited for its place.
            None => return retry_later(CIRCUIT_OPEN),
            Some(outcome) => outcome,
        };
        for _ in 1..TRIES_MAX {
            if !self.is_worth_another(call, begun, &first) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(rand::random_range(PAUSE_MS))).await;
            let Some(second) = self.once(call, begun, &exchange).await else { break };
            metrics::counter!("oncepay_channel_second_tries_total",
                "channel" => self.channel.as_str(), "call" => call.label(), "outcome" => second.label())
            .increment(1);
            first = settled(call, first, second);
        }
        first
    }

    fn is_worth_another<T>(&self, call: Call, begun: Instant, outcome: &Outcome<T>) -> bool {
        matches!(outcome, Outcome::Unknown { .. })
            && call.may_repeat()
            && begun.elapsed() <= self.half()
            && self.breaker.is_closed()
    }

    /// A place for a call. The wait may take half of the limit: what is sent has at least the other half for its answer,
    /// and what was not sent is known not to have been.
    async fn place(&self) -> Option<SemaphorePermit<'_>> {
        tokio::time::timeout(self.half(), self.places.acquire()).await.ok()?.ok()
    }

    /// One exchange; `None` when the circuit does not let it through, so that nothing was sent.
    async fn once<'a, T>(
        &'a self,
        call: Call,
        begun: Instant,
        exchange: &impl Fn() -> BoxFuture<'a, Outcome<T>>,
    ) -> Option<Outcome<T>> {
        let leave = self.breaker.leave(call.is_query())?;
        let left = self.limit.saturating_sub(begun.elapsed());
        let outcome = tokio::time::timeout(left, exchange())
            .await
            .unwrap_or_else(|_| Outcome::Unknown { why: "no answer within the time limit".to_owned() });
        self.told(leave.tell(matches!(outcome, Outcome::Unknown { .. })));
        Some(outcome)
    }

    /// Tells a change of the circuit once, where it happens.
    fn told(&self, change: Change) {
        let (channel, account) = (self.channel.as_str(), self.account.to_string());
        let circuit_open =
            metrics::gauge!("oncepay_channel_circuit_open", "channel" => channel, "account" => account);
        match change {
            Change::None => {}
            Change::Opened => {
                circuit_open.set(1);
                tracing::error!(channel, channel.account = %self.account, "the circuit opened: the channel gives no known outcomes");
            }
            Change::Closed => {
                circuit_open.set(0);
                tracing::info!(channel, channel.account = %self.account, "the circuit closed: the channel answers again");
            }
        }
    }

    fn half(&self) -> Duration {
        self.limit.checked_div(2).unwrap_or_default()
    }
}

/// What two tries say together. A query's answer speaks of now. Of a create only an order that stands is certain: a refusal
/// of the second try says nothing about what the first one did.
fn settled<T>(call: Call, first: Outcome<T>, second: Outcome<T>) -> Outcome<T> {
    match second {
        Outcome::Accepted(_) => second,
        Outcome::Rejected { .. } | Outcome::RetryLater { .. } | Outcome::Unknown { .. }
            if call.is_query() =>
        {
            second
        }
        Outcome::Rejected { .. } | Outcome::RetryLater { .. } | Outcome::Unknown { .. } => first,
    }
}

fn retry_later<T>(code: &str) -> Outcome<T> {
    Outcome::RetryLater { code: code.to_owned() }
}
