//! `ApplyChannelResult`: a verified word of a channel, from any source, into the one settle path.

use bytes::Bytes;
use contract::core::{
    ApplyChannelResultRequest, ApplyChannelResultResponse, ChannelAnswer, ChannelFact, ResultOutcome,
    ResultSource,
};
use contract::order;
use contract::reason::Refusal;
use contract::{to_offset_date_time, validate};
use pay_types::{ChannelTxnId, Currency, Invalid, Money, RefundWord};
use service_kit::grpc;
use time::OffsetDateTime;
use tonic::Request;

use super::Core;
use crate::Error;
use crate::payment::judge::{ChannelResult, Fact, Nonce, RefundFact, Source};
use crate::payment::settle::Outcome;

/// Bytes of a raw message; what callback-receiver takes.
const RAW_BYTES_MAX: usize = 64 * 1024;
/// Characters of numbers of ours as the channel repeats them; longer ones are none, and are cut for the evidence.
const NUMBER_MAX: usize = 64;
/// Characters of the channel's own number of a refund.
const CHANNEL_REFUND_NO_MAX: usize = 128;
/// Characters of the channel's own words.
const DETAIL_MAX: usize = 500;

pub(super) async fn handle(
    core: &Core,
    request: Request<ApplyChannelResultRequest>,
) -> Result<ApplyChannelResultResponse, Error> {
    let wait = grpc::time_left(request.metadata(), core.command_wait_max);
    let result = read(request.into_inner(), core.channels.clock.now())?;
    let settled = core.channels.settling.call(result, wait).await?;
    let answer = if settled.outcome.accepts() { ChannelAnswer::Accept } else { ChannelAnswer::Refuse };
    let state = settled.state.map_or(order::PaymentState::Unspecified, order::PaymentState::from);
    Ok(ApplyChannelResultResponse {
        outcome: outcome(settled.outcome).into(),
        answer: answer.into(),
        state: state.into(),
    })
}

fn read(request: ApplyChannelResultRequest, now: OffsetDateTime) -> Result<ChannelResult, Refusal> {
    let invalid = |field, rule| validate::invalid(Invalid::new(field, rule));
    let source = match ResultSource::try_from(request.source) {
        Ok(ResultSource::Notice) => Source::Notice,
        Ok(ResultSource::Query) => Source::Query,
        Ok(ResultSource::Statement) => Source::Statement,
        Ok(ResultSource::Unspecified) | Err(_) => {
            return Err(invalid("source", "must be NOTICE, QUERY or STATEMENT"));
        }
    };
    if request.raw.len() > RAW_BYTES_MAX {
        return Err(invalid("raw", "must be at most 64 KiB"));
    }
    let channel_txn_id = match request.channel_txn_id.as_str() {
        "" => None,
        text => Some(text.parse::<ChannelTxnId>().map_err(validate::invalid)?),
    };
    let fact = match ChannelFact::try_from(request.fact) {
        Ok(ChannelFact::PaySucceeded) => Fact::Paid {
            amount: money(request.amount.as_ref())?,
            channel_txn_id: channel_txn_id
                .clone()
                .ok_or_else(|| invalid("channel_txn_id", "is needed with PAY_SUCCEEDED"))?,
        },
        Ok(ChannelFact::PayClosed) => Fact::Closed,
        Ok(ChannelFact::PayFailed) => Fact::Failed,
        Ok(ChannelFact::PayDeclined) => Fact::Declined,
        Ok(ChannelFact::RefundSucceeded) => refund(&request, RefundWord::Succeeded)?,
        Ok(ChannelFact::RefundFailed) => refund(&request, RefundWord::Failed)?,
        Ok(ChannelFact::RefundAbnormal) => refund(&request, RefundWord::Abnormal)?,
        Ok(ChannelFact::RefundedTotal) => Fact::RefundedTotal(money(request.amount.as_ref())?),
        Ok(ChannelFact::Unspecified) | Err(_) => {
            return Err(invalid("fact", "must be a known fact"));
        }
    };
    if request.pay_no.is_empty() || request.pay_no.contains('\0') {
        return Err(invalid("pay_no", "must be the number that the channel names"));
    }
    Ok(ChannelResult {
        channel: request.channel.parse().map_err(validate::invalid)?,
        channel_account: request.channel_account.parse().map_err(validate::invalid)?,
        source,
        fact,
        pay_no: request.pay_no.chars().take(NUMBER_MAX).collect(),
        merchant_id: Some(request.merchant_id).filter(|merchant| !merchant.is_empty()),
        channel_txn_id,
        occurred_at: request.occurred_at.as_ref().and_then(to_offset_date_time).unwrap_or(now),
        raw: Bytes::from(request.raw),
        nonce: request.nonce.map(|nonce| Nonce {
            key_id: nonce.key_id,
            nonce: nonce.nonce,
            notify_id: nonce.notify_id,
            body_sha256: nonce.body_sha256,
        }),
        detail: request.detail.chars().filter(|c| *c != '\0').take(DETAIL_MAX).collect(),
    })
}

fn refund(request: &ApplyChannelResultRequest, word: RefundWord) -> Result<Fact, Refusal> {
    if request.refund_no.is_empty() || request.refund_no.contains(['\0', ':']) {
        let invalid = Invalid::new("refund_no", "must be the refund's number that the channel names");
        return Err(validate::invalid(invalid));
    }
    Ok(Fact::Refund(RefundFact {
        refund_no: request.refund_no.chars().take(NUMBER_MAX).collect(),
        word,
        amount: money(request.amount.as_ref())?,
        channel_refund_no: Some(request.channel_refund_no.as_str())
            .filter(|text| (1..=CHANNEL_REFUND_NO_MAX).contains(&text.len()))
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()))
            .map(str::to_owned),
    }))
}

fn money(money: Option<&contract::common::Money>) -> Result<Money, Refusal> {
    let money = money.ok_or_else(|| validate::invalid(Invalid::new("amount", "is needed with this fact")))?;
    Currency::from_code(&money.currency)
        .and_then(|currency| Money::try_new(money.amount, currency))
        .map_err(validate::invalid)
}

fn outcome(outcome: Outcome) -> ResultOutcome {
    match outcome {
        Outcome::Applied => ResultOutcome::Applied,
        Outcome::Duplicate => ResultOutcome::Duplicate,
        Outcome::Ignored => ResultOutcome::Ignored,
        Outcome::Recorded => ResultOutcome::Recorded,
        Outcome::UnexpectedReceipt => ResultOutcome::UnexpectedReceipt,
        Outcome::AmountMismatch => ResultOutcome::AmountMismatch,
        Outcome::CrossAccount => ResultOutcome::CrossAccount,
        Outcome::Orphan => ResultOutcome::Orphan,
        Outcome::NonceReused => ResultOutcome::NonceReused,
    }
}
