//! One scenario's own merchant, the calls that scenarios share, and what is counted at its end.

use std::time::Duration;

use channel_simulator::{DirectNotice, OrderView, PayOptions, Received, Status};
use contract::order::{CreatePaymentRequest, CreatePaymentResponse, Payment};
use contract::reason::{Reason, of_status};
use futures::future::join_all;

use crate::wait::holds_within;
use crate::{Stack, request};

/// Longest wait for something that a removed guard may keep from coming; long enough for a machine that is busy compiling.
const SOON: Duration = Duration::from_secs(60);

/// What came of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// Times the channel took money for the scenario's merchant.
    pub charges: u64,
    /// Entries of the merchant in the books.
    pub entries: i64,
    /// Expectations that do not hold.
    pub broken: Vec<String>,
}

fn is_taken(answer: &Received) -> bool {
    answer.status.is_some_and(|status| (200..300).contains(&status))
}

pub(super) struct Scene<'a> {
    pub(super) stack: &'a Stack,
    pub(super) merchant: String,
    broken: Vec<String>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(stack: &'a Stack) -> Self {
        Self { stack, merchant: test_kit::merchant().to_string(), broken: Vec::new() }
    }

    pub(super) fn request(&self, order_no: &str, key: &str) -> CreatePaymentRequest {
        request(&self.merchant, order_no, key)
    }

    pub(super) fn expect(&mut self, holds: bool, words: &str) {
        if !holds {
            self.broken.push(words.to_owned());
        }
    }

    /// Fifty calls at once over the copies of order-api; every answer must name one payment, or ask to come again. Who was
    /// asked so does come again.
    pub(super) async fn storm(&mut self, requests: &[CreatePaymentRequest]) {
        let copies = self.stack.callers.iter().cycle();
        let calls = requests.iter().cycle().zip(copies).take(50).map(|(request, caller)| {
            let (request, caller) = (request.clone(), caller.clone());
            async move { caller.create(request).await }
        });
        let mut numbers: Vec<String> = Vec::new();
        for answer in join_all(calls).await {
            match answer {
                Ok(response) => numbers.extend(response.payment.map(|payment| payment.pay_no)),
                Err(status) => {
                    // No reason of ours: the caller's deadline was over on a busy machine, and it knows nothing.
                    let again =
                        matches!(of_status(&status), None | Some(Reason::InProgress | Reason::Unavailable));
                    self.expect(again, &format!("a call was refused: {}", status.message()));
                }
            }
        }
        for answer in join_all(requests.iter().map(|request| self.answer(request))).await {
            match answer {
                Some(Ok(response)) => numbers.extend(response.payment.map(|payment| payment.pay_no)),
                Some(Err(reason)) => self.expect(false, &format!("a call was refused: {}", reason.as_str())),
                None => self.expect(false, "a call was never answered"),
            }
        }
        numbers.sort();
        numbers.dedup();
        self.expect(numbers.len() <= 1, &format!("the answers name {} payments", numbers.len()));
    }

    /// Calls until the answer is final.
    pub(super) async fn answer(
        &self,
        request: &CreatePaymentRequest,
    ) -> Option<Result<CreatePaymentResponse, Reason>> {
        let mut last = None;
        holds_within(SOON, async || {
            last = match self.stack.caller().create(request.clone()).await {
                Ok(response) => Some(Ok(response)),
                Err(status) => match of_status(&status) {
                    Some(Reason::InProgress | Reason::Unavailable | Reason::Overloaded) | None => None,
                    Some(reason) => Some(Err(reason)),
                },
            };
            last.is_some()
        })
        .await;
        last
    }

    /// A payment whose order stands at the channel.
    pub(super) async fn begun(&mut self) -> Option<Payment> {
        let request = self.request("O1", "K1");
        let payment = self.answer(&request).await.and_then(Result::ok).and_then(|response| response.payment);
        self.expect(payment.is_some(), "no payment could be made");
        self.wait_dispatched().await;
        payment
    }

    async fn wait_dispatched(&mut self) {
        let waiting = "SELECT COUNT(*) FROM payment
                       WHERE merchant_id = $1 AND state = 'PROCESSING' AND dispatched_at IS NULL";
        let sent = holds_within(SOON, async || self.number(waiting).await == 0).await;
        self.expect(sent, "a payment was not sent to the channel");
    }

    /// A number about this merchant from database `payment`.
    pub(super) async fn number(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).bind(&self.merchant).fetch_one(self.stack.payments()).await.unwrap()
    }

    /// Entries of this merchant.
    pub(super) async fn entries(&self) -> i64 {
        sqlx::query_scalar("SELECT COUNT(*) FROM entry WHERE merchant_id = $1")
            .bind(&self.merchant)
            .fetch_one(self.stack.books())
            .await
            .unwrap()
    }

    /// The merchant's orders at the channel.
    pub(super) async fn orders(&self) -> Vec<OrderView> {
        let book = self.stack.simulator.book().await;
        book.orders.into_iter().filter(|order| order.merchant_id == self.merchant).collect()
    }

    /// The buyer pays whatever stands at the channel: so every duplicate becomes money.
    pub(super) async fn pay_all(&mut self) {
        self.wait_dispatched().await;
        for order in self.orders().await.iter().filter(|order| order.status == Status::Created) {
            self.stack.simulator.pay(&order.pay_no, &PayOptions::default()).await;
        }
        let open = "SELECT COUNT(*) FROM payment WHERE merchant_id = $1 AND state = 'PROCESSING'";
        let ended = holds_within(SOON, async || self.number(open).await == 0).await;
        self.expect(ended, "a paid payment did not end");
    }

    pub(super) async fn wait_booked(&mut self) {
        let facts = "SELECT COUNT(*) FROM payment_event
                     WHERE partition_key LIKE $1 || ':%' AND type IN ('PAY_SUCCEEDED', 'RECEIPT_UNEXPECTED')";
        let facts = self.number(facts).await;
        let booked = holds_within(SOON, async || self.entries().await >= facts).await;
        self.expect(booked, "a fact was not booked");
    }

    /// Sends a genuine notice as every channel does: where a copy was told to come again, it comes again.
    pub(super) async fn notice(&mut self, notice: &DirectNotice) {
        let mut last = self.stack.simulator.notice(notice).await;
        let again = DirectNotice { repeats: None, parallel: None, ..notice.clone() };
        let taken = holds_within(SOON, async || {
            let taken = last.iter().all(is_taken);
            if !taken {
                last = self.stack.simulator.notice(&again).await;
            }
            taken
        })
        .await;
        self.expect(taken, &format!("a genuine notice was refused: {last:?}"));
    }

    /// Waits until all is booked, counts, and compares with what is expected.
    pub(super) async fn end(mut self, charges: u64, entries: i64) -> Cell {
        self.wait_booked().await;
        let charged = self.orders().await.iter().fold(0_u64, |sum, order| sum.saturating_add(order.charges));
        let booked = self.entries().await;
        self.expect(charged == charges, &format!("{charged} charges, {charges} expected"));
        self.expect(booked == entries, &format!("{booked} entries, {entries} expected"));
        Cell { charges: charged, entries: booked, broken: self.broken }
    }
}
