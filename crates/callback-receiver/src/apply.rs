//! The one call for a notice that was read: the core decides, and its answer is the channel's.

use std::time::Duration;

use channel::{Answer, Fact, Notice};
use contract::core::{
    ApplyChannelResultRequest, ApplyChannelResultResponse, ChannelAnswer, ChannelFact, NoticeNonce,
    ResultOutcome, ResultSource,
};
use contract::{common, timestamp_opt};
use pay_types::{ChannelAccount, ChannelCode};
use service_kit::switch::kill_point;
use tonic::Code;

use crate::app::Core;

/// A notice, with what the core keeps of its raw form.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) channel: ChannelCode,
    pub(crate) account: ChannelAccount,
    pub(crate) notice: Notice,
    pub(crate) raw: Vec<u8>,
    pub(crate) body_sha256: Vec<u8>,
}

/// What the channel is told, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The core decided.
    Core(Answer, ResultOutcome),
    /// Nothing that we act on; the channel need not repeat it.
    NotOurs,
    /// The core cannot read what we could: evidence is due.
    Unreadable,
    /// The core could not be asked, or did not say.
    Unavailable,
}

/// Whether the core has a say in this fact; other events move nothing of ours.
fn core_fact(fact: Fact) -> Option<ChannelFact> {
    match fact {
        Fact::PaySucceeded => Some(ChannelFact::PaySucceeded),
        Fact::PayClosed => Some(ChannelFact::PayClosed),
        Fact::PayFailed => Some(ChannelFact::PayFailed),
        Fact::PayDeclined => Some(ChannelFact::PayDeclined),
        Fact::RefundSucceeded => Some(ChannelFact::RefundSucceeded),
        Fact::RefundFailed => Some(ChannelFact::RefundFailed),
        Fact::RefundAbnormal => Some(ChannelFact::RefundAbnormal),
        Fact::RefundedTotal => Some(ChannelFact::RefundedTotal),
        Fact::Other => None,
    }
}

/// Asks the core, once and within `limit`. What it committed by then stays committed, also when we do not hear of it: the
/// channel sends again, and the core answers as before.
pub(crate) async fn apply(mut core: Core, heard: Heard, limit: Duration) -> Decision {
    let Some(fact) = core_fact(heard.notice.fact) else {
        tracing::info!(
            pay.no = heard.notice.pay_no,
            fact = heard.notice.fact.as_str(),
            "a notice that we do not act on is acknowledged"
        );
        return Decision::NotOurs;
    };
    let mut request = tonic::Request::new(request(heard, fact));
    request.set_timeout(limit);
    kill_point("callback_receiver.notify.before_core");
    let answered = tokio::time::timeout(limit, core.apply_channel_result(request)).await;
    kill_point("callback_receiver.notify.after_core");
    match answered {
        Ok(Ok(response)) => decision(*response.get_ref()),
        Ok(Err(status)) if status.code() == Code::InvalidArgument => {
            tracing::error!(
                "the core cannot read a notice that verified: the contract is not kept on one side"
            );
            Decision::Unreadable
        }
        Ok(Err(status)) => {
            tracing::warn!(code = ?status.code(), "the core could not take a notice: the channel is told to send again");
            Decision::Unavailable
        }
        Err(_) => {
            tracing::warn!("the core did not answer in time: the channel is told to send again");
            Decision::Unavailable
        }
    }
}

fn decision(response: ApplyChannelResultResponse) -> Decision {
    match response.answer() {
        ChannelAnswer::Accept => Decision::Core(Answer::Accept, response.outcome()),
        ChannelAnswer::Refuse => Decision::Core(Answer::Refuse, response.outcome()),
        ChannelAnswer::Unspecified => {
            tracing::error!("the core answered without a word for the channel");
            Decision::Unavailable
        }
    }
}

fn request(heard: Heard, fact: ChannelFact) -> ApplyChannelResultRequest {
    let Heard { channel, account, notice, raw, body_sha256 } = heard;
    let nonce = notice.nonce.map(|nonce| NoticeNonce {
        key_id: notice.key_id,
        nonce,
        notify_id: notice.notify_id,
        body_sha256,
    });
    ApplyChannelResultRequest {
        channel: channel.as_str().to_owned(),
        channel_account: account.as_str().to_owned(),
        source: ResultSource::Notice.into(),
        fact: fact.into(),
        pay_no: notice.pay_no,
        channel_txn_id: notice.channel_txn_id.map(|id| id.as_str().to_owned()).unwrap_or_default(),
        amount: notice.amount.map(|stated| common::Money { amount: stated.minor, currency: stated.currency }),
        occurred_at: timestamp_opt(notice.occurred_at),
        raw,
        nonce,
        detail: String::new(),
        merchant_id: notice.merchant_id,
        refund_no: notice.refund_no.unwrap_or_default(),
        channel_refund_no: notice.channel_refund_no.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cores_word_is_passed_on() {
        let response = |answer: ChannelAnswer| ApplyChannelResultResponse {
            outcome: ResultOutcome::Orphan.into(),
            answer: answer.into(),
            ..ApplyChannelResultResponse::default()
        };
        assert_eq!(
            decision(response(ChannelAnswer::Accept)),
            Decision::Core(Answer::Accept, ResultOutcome::Orphan)
        );
        assert_eq!(
            decision(response(ChannelAnswer::Refuse)),
            Decision::Core(Answer::Refuse, ResultOutcome::Orphan)
        );
        assert_eq!(decision(response(ChannelAnswer::Unspecified)), Decision::Unavailable);
        let unknown = ApplyChannelResultResponse { answer: 99, ..ApplyChannelResultResponse::default() };
        assert_eq!(decision(unknown), Decision::Unavailable, "a later core's new word is no acceptance");
    }
}
