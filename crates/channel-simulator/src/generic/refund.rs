//! The channel's calls about refunds: signed in, signed out.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use pay_types::{ChannelAccount, Currency, Money};
use serde_json::{Value, json};

use crate::app::Simulator;
use crate::fault::Answers;
use crate::generic::call::{NUMBER_BYTES_MAX, authenticate, error, owner, respond, spoilt};
use crate::generic::notice::text;
use crate::refund::{MadeRefund, NewRefund, Refund, RefundTerms};

pub(crate) async fn create(State(simulator): State<Arc<Simulator>>, request: Request) -> Response {
    let (account, body) = match authenticate(&simulator, request).await {
        Ok(call) => call,
        Err(response) => return response,
    };
    let respond = |status, json| respond(&simulator, &account, status, &json);
    let terms = match read_terms(&body) {
        Ok(terms) => terms,
        Err(field) => return respond(422, error("FIELD_INVALID", field)),
    };
    let asked = NewRefund { owner: owner(&account), key: terms.refund_no.clone(), terms };
    let made = simulator.book.refund(asked, simulator.clock.now());
    let refund = match made {
        MadeRefund::Same(refund) => return respond(200, show(&refund)),
        MadeRefund::TermsDiffer => {
            return respond(409, error("TERMS_DIFFER", "the number exists on other terms"));
        }
        MadeRefund::NoTransaction => {
            return respond(404, error("TRANSACTION_NOT_FOUND", "the order has no such transaction"));
        }
        MadeRefund::Exceeds => {
            return respond(409, error("REFUND_EXCEEDS_TRANSACTION", "less is left of the transaction"));
        }
        MadeRefund::Full => return respond(429, error("BOOK_FULL", "no more refunds are taken")),
        MadeRefund::FailedBeforeCommit => return respond(500, error("SYSTEM_ERROR", "nothing was done")),
        MadeRefund::New(refund) => refund,
    };
    simulator.refunded(&refund);
    let answers = Answers {
        truth: || respond(200, show(&refund)),
        failed: || respond(500, error("SYSTEM_ERROR", "the refund may exist")),
        spoilt: || spoilt(&simulator, &account, 200, &show(&refund)),
    };
    answers.befall(&simulator, 0, refund.fate.fault).await
}

pub(crate) async fn query(
    State(simulator): State<Arc<Simulator>>,
    Path(refund_no): Path<String>,
    request: Request,
) -> Response {
    let account = match authenticate(&simulator, request).await {
        Ok((account, _)) => account,
        Err(response) => return response,
    };
    match simulator.book.query_refund(&owner(&account), &refund_no) {
        Some(refund) => respond(&simulator, &account, 200, &show(&refund)),
        None => {
            let json = error("REFUND_NOT_FOUND", "no such number of this account");
            respond(&simulator, &account, 404, &json)
        }
    }
}

fn read_terms(body: &[u8]) -> Result<RefundTerms, &'static str> {
    let terms: RefundTerms =
        serde_json::from_slice(body).map_err(|_| "the body is not a refund in JSON with all its fields")?;
    if terms.refund_no.len() > NUMBER_BYTES_MAX || terms.refund_no.parse::<ChannelAccount>().is_err() {
        return Err("refund_no must be 1 to 64 letters, digits, '_', '-' or '.'");
    }
    let currency = Currency::from_code(&terms.currency).map_err(|_| "currency is not ISO 4217")?;
    Money::try_new(terms.amount, currency).map_err(|_| "amount must be 1 to 1000000000000 minor units")?;
    reqwest::Url::parse(&terms.notify_url).map_err(|_| "notify_url is no address")?;
    Ok(terms)
}

fn show(refund: &Refund) -> Value {
    json!({
        "refund_no": refund.terms.refund_no,
        "pay_no": refund.terms.pay_no,
        "channel_txn_id": refund.terms.channel_txn_id,
        "channel_refund_no": refund.channel_refund_no,
        "status": refund.status,
        "amount": refund.terms.amount,
        "currency": refund.terms.currency,
        "occurred_at": text(refund.changed_at),
    })
}
