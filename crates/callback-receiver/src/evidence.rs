//! Evidence of refused notices: kept by the core, in the ordinary case before the answer.
//!
//! Whoever knows an address can send rubbish to it, so this way is narrow: each account has a rate, all share one bounded
//! queue, and what finds no place is dropped and counted. A flood can therefore neither fill the database nor hold back the
//! notices that verify.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use contract::core::RecordRefusedNoticeRequest;
use futures::StreamExt as _;
use pay_types::{ChannelAccount, ChannelCode};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::app::Core;
use crate::rate::Rate;

/// Pieces that wait: at 5 KiB each a megabyte, and at the rate below a dozen seconds of one account.
const QUEUED_MAX: usize = 256;
/// Pieces being written at the same time; the core has better things to do.
const WRITTEN_AT_ONCE_MAX: usize = 4;
/// Pieces that one account may have at once: a channel that changed its key without telling sends this many while a person
/// wakes up.
const BURST: u32 = 100;
/// Then one each 50 ms: 20 a second are 1.7 million rows a day at worst, which a purge keeps up with.
const INTERVAL: Duration = Duration::from_millis(50);
/// Longest that an answer waits for its evidence. The sender is refused in either case.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Longest write.
const WRITE_MAX: Duration = Duration::from_secs(5);

/// What became of a piece of evidence by the time of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Committed.
    Committed,
    /// Still waiting, or being written.
    Later,
    /// The core could not keep it.
    Lost,
    /// The account's rate is used up.
    OverRate,
    /// The queue is full.
    QueueFull,
}

impl Kept {
    fn label(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Later => "later",
            Self::Lost => "lost",
            Self::OverRate => "over_rate",
            Self::QueueFull => "queue_full",
        }
    }
}

struct Piece {
    request: RecordRefusedNoticeRequest,
    kept: oneshot::Sender<Kept>,
    span: tracing::Span,
}

/// The way in.
#[derive(Debug)]
pub(crate) struct Evidence {
    queue: mpsc::Sender<Piece>,
    rates: HashMap<(ChannelCode, ChannelAccount), Mutex<Rate>>,
}

/// The way out: to be run until every [`Evidence`] is gone and the queue is empty.
pub(crate) struct Writer {
    queue: mpsc::Receiver<Piece>,
    core: Core,
}

/// Both ends, for these accounts.
pub(crate) fn channel(
    accounts: impl Iterator<Item = (ChannelCode, ChannelAccount)>,
    core: Core,
) -> (Evidence, Writer) {
    let (sender, receiver) = mpsc::channel(QUEUED_MAX);
    let now = Instant::now();
    let rates = accounts.map(|account| (account, Mutex::new(Rate::new(BURST, INTERVAL, now)))).collect();
    (Evidence { queue: sender, rates }, Writer { queue: receiver, core })
}

impl Evidence {
    /// Keeps a piece, and waits a little for its commit.
    pub(crate) async fn keep(
        &self,
        account: &(ChannelCode, ChannelAccount),
        request: RecordRefusedNoticeRequest,
    ) -> Kept {
        let kept = self.try_keep(account, request).await;
        metrics::counter!("oncepay_callback_evidence_total",
            "channel" => account.0.as_str(), "kept" => kept.label())
        .increment(1);
        kept
    }

    async fn try_keep(
        &self,
        account: &(ChannelCode, ChannelAccount),
        request: RecordRefusedNoticeRequest,
    ) -> Kept {
        let within_rate = self
            .rates
            .get(account)
            .is_some_and(|rate| rate.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now()));
        if !within_rate {
            return Kept::OverRate;
        }
        let (kept, wait) = oneshot::channel();
        let piece = Piece { request, kept, span: tracing::Span::current() };
        if self.queue.try_send(piece).is_err() {
            return Kept::QueueFull;
        }
        match tokio::time::timeout(WAIT_MAX, wait).await {
            Ok(kept) => kept.unwrap_or(Kept::Lost),
            Err(_) => Kept::Later,
        }
    }
}

impl Writer {
    pub(crate) async fn run(mut self) {
        let core = self.core;
        futures::stream::poll_fn(move |context| self.queue.poll_recv(context))
            .for_each_concurrent(WRITTEN_AT_ONCE_MAX, |piece| {
                let (span, core) = (piece.span.clone(), core.clone());
                write(core, piece).instrument(span)
            })
            .await;
    }
}

async fn write(mut core: Core, piece: Piece) {
    let mut request = tonic::Request::new(piece.request);
    request.set_timeout(WRITE_MAX);
    let kept = match tokio::time::timeout(WRITE_MAX, core.record_refused_notice(request)).await {
        Ok(Ok(_)) => Kept::Committed,
        Ok(Err(status)) => {
            tracing::warn!(code = ?status.code(), "evidence of a refused notice is lost: the core did not keep it");
            Kept::Lost
        }
        Err(_) => {
            tracing::warn!("evidence of a refused notice is lost: the core did not answer");
            Kept::Lost
        }
    };
    if piece.kept.send(kept).is_err() {
        tracing::debug!("the sender was answered before its evidence was written");
    }
}
