//! What the simulator does to whom: plans from outside. What becomes of each order is in [`crate::fate`].

use serde::{Deserialize, Serialize};

/// Longest delay that a plan may ask for, milliseconds: ten minutes.
const DELAY_MS_MAX: u64 = 600_000;
/// Most copies of one notice: twenty times the worst that a channel was seen to do.
pub(crate) const REPEATS_MAX: u32 = 100;

/// A plan; everything left out is a channel that behaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    pub seed: u64,
    /// Pays orders without a person.
    pub auto_pay: Option<AutoPay>,
    /// Copies of each notice, sent at once, the same bytes under the same nonce.
    pub notice_repeats: u32,
    /// Least and most wait before a notice is sent, milliseconds.
    pub notice_delay_ms: [u64; 2],
    /// Of 100 paid orders, how many are told closed after they were told paid.
    pub reorder_percent: u8,
    /// Of 100 notices, how many are not sent at first. The schedule of repeats sends them later.
    pub lose_percent: u8,
    pub lies: Lies,
    pub create: CreateFaults,
    pub refund: RefundFaults,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 0,
            auto_pay: None,
            notice_repeats: 1,
            notice_delay_ms: [0, 0],
            reorder_percent: 0,
            lose_percent: 0,
            lies: Lies::default(),
            create: CreateFaults::default(),
            refund: RefundFaults::default(),
        }
    }
}

/// Which orders pay themselves, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoPay {
    /// Of 100 orders, how many are paid.
    #[serde(default = "all")]
    pub percent: u8,
    /// Least and most wait after creation, milliseconds.
    #[serde(default)]
    pub delay_ms: [u64; 2],
}

fn all() -> u8 {
    100
}

/// Of 100 paid orders, how many come with an *additional* notice that lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lies {
    /// Well signed, for the order's number, with another amount, under a transaction of its own.
    pub wrong_amount_percent: u8,
    /// Well signed, for a number that does not exist.
    pub unknown_pay_no_percent: u8,
    /// The true content with a signature of something else; sent once.
    pub bad_signature_percent: u8,
    /// The true content signed an hour ago; sent once. Alipay has no such thing: its notices are valid for ever.
    pub stale_timestamp_percent: u8,
    /// Well signed, for somebody else: another app or merchant number; of Stripe, an event of the test mode. Sent once. The
    /// generic channel's key already says whose a notice is.
    pub foreign_account_percent: u8,
    /// The true content with a signature that begins `WECHATPAY/SIGNTEST/`, of WeChat Pay only; sent once.
    pub probe_signature_percent: u8,
}

/// Of 100 new orders, on how many the first create call goes wrong. Repeats under the same number are answered well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CreateFaults {
    /// Least and most wait between commit and answer, milliseconds.
    pub delay_ms: [u64; 2],
    /// 500, and nothing was done.
    pub error_before_commit_percent: u8,
    /// 500, although the order exists.
    pub error_after_commit_percent: u8,
    /// The connection ends, although the order exists.
    pub drop_after_commit_percent: u8,
    /// No answer at all, although the order exists.
    pub hang_after_commit_percent: u8,
    /// The true answer with a signature of something else. Stripe's answers have none.
    pub bad_answer_signature_percent: u8,
}

/// Of 100 new refunds, how many go wrong, and how. Repeats under the same number are answered well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RefundFaults {
    /// Least and most wait until the money is back, milliseconds. Zero: the call's own answer says that it is.
    pub done_ms: [u64; 2],
    /// Taken, and never done.
    pub fail_percent: u8,
    /// No notice at all: only a query finds out.
    pub silent_percent: u8,
    /// 500, and nothing was done.
    pub error_before_commit_percent: u8,
    /// 500, although the refund exists.
    pub error_after_commit_percent: u8,
    /// The connection ends, although the refund exists.
    pub drop_after_commit_percent: u8,
    /// No answer at all, although the refund exists.
    pub hang_after_commit_percent: u8,
    /// The true answer with a signature of something else. Stripe's answers have none.
    pub bad_answer_signature_percent: u8,
    /// Taken, and in process for ever.
    pub stuck_percent: u8,
    /// Neither back nor failed: a person must act at the channel.
    pub abnormal_percent: u8,
    /// Done and told so, and later failed after all: the bank sent the money back.
    pub fail_after_success_percent: u8,
    /// Least and most wait between the success and that failure, milliseconds.
    pub fail_after_ms: [u64; 2],
}

impl Plan {
    /// Checks a plan from outside.
    ///
    /// # Errors
    /// The field and what it must be.
    pub(crate) fn check(&self) -> Result<(), String> {
        let percents = [
            ("reorder_percent", self.reorder_percent),
            ("lose_percent", self.lose_percent),
            ("auto_pay.percent", self.auto_pay.as_ref().map_or(0, |auto| auto.percent)),
            ("lies.wrong_amount_percent", self.lies.wrong_amount_percent),
            ("lies.unknown_pay_no_percent", self.lies.unknown_pay_no_percent),
            ("lies.bad_signature_percent", self.lies.bad_signature_percent),
            ("lies.stale_timestamp_percent", self.lies.stale_timestamp_percent),
            ("lies.foreign_account_percent", self.lies.foreign_account_percent),
            ("lies.probe_signature_percent", self.lies.probe_signature_percent),
            ("create.error_before_commit_percent", self.create.error_before_commit_percent),
            ("create.error_after_commit_percent", self.create.error_after_commit_percent),
            ("create.drop_after_commit_percent", self.create.drop_after_commit_percent),
            ("create.hang_after_commit_percent", self.create.hang_after_commit_percent),
            ("create.bad_answer_signature_percent", self.create.bad_answer_signature_percent),
            ("refund.fail_percent", self.refund.fail_percent),
            ("refund.silent_percent", self.refund.silent_percent),
            ("refund.error_before_commit_percent", self.refund.error_before_commit_percent),
            ("refund.error_after_commit_percent", self.refund.error_after_commit_percent),
            ("refund.drop_after_commit_percent", self.refund.drop_after_commit_percent),
            ("refund.hang_after_commit_percent", self.refund.hang_after_commit_percent),
            ("refund.bad_answer_signature_percent", self.refund.bad_answer_signature_percent),
            ("refund.stuck_percent", self.refund.stuck_percent),
            ("refund.abnormal_percent", self.refund.abnormal_percent),
            ("refund.fail_after_success_percent", self.refund.fail_after_success_percent),
        ];
        if let Some((field, _)) = percents.iter().find(|(_, percent)| *percent > 100) {
            return Err(format!("{field} must be 0 to 100"));
        }
        let ranges = [
            ("notice_delay_ms", self.notice_delay_ms),
            ("auto_pay.delay_ms", self.auto_pay.as_ref().map_or([0, 0], |auto| auto.delay_ms)),
            ("create.delay_ms", self.create.delay_ms),
            ("refund.done_ms", self.refund.done_ms),
            ("refund.fail_after_ms", self.refund.fail_after_ms),
        ];
        if let Some((field, _)) = ranges.iter().find(|(_, [low, high])| low > high || *high > DELAY_MS_MAX) {
            return Err(format!("{field} must be [least, most] milliseconds, at most {DELAY_MS_MAX}"));
        }
        if !(1..=REPEATS_MAX).contains(&self.notice_repeats) {
            return Err(format!("notice_repeats must be 1 to {REPEATS_MAX}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_cannot_be_is_refused_by_name() {
        let bad = |json: &str| serde_json::from_str::<Plan>(json).unwrap().check().unwrap_err();
        assert!(bad(r#"{"lose_percent":101}"#).starts_with("lose_percent"));
        assert!(bad(r#"{"lies":{"wrong_amount_percent":200}}"#).starts_with("lies.wrong_amount_percent"));
        assert!(bad(r#"{"notice_delay_ms":[5,1]}"#).starts_with("notice_delay_ms"));
        assert!(bad(r#"{"notice_repeats":0}"#).starts_with("notice_repeats"));
        assert!(serde_json::from_str::<Plan>(r#"{"lose":1}"#).is_err());
        assert_eq!(serde_json::from_str::<Plan>("{}").unwrap(), Plan::default());
        assert!(Plan::default().check().is_ok());
    }
}
