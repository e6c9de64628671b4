//! What the simulator does to whom, from a seed.
//!
//! The n-th order after a plan was set has the same fate in every run of the same plan: fates are drawn from the seed and
//! from n, never from one stream that concurrent requests would share in the order of their luck.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

/// Longest delay that a plan may ask for, milliseconds: ten minutes.
const DELAY_MS_MAX: u64 = 600_000;
/// Most copies of one notice: twenty times the worst that a channel was seen to do.
pub(crate) const REPEATS_MAX: u32 = 100;
/// Spreads neighbouring numbers over the whole range of seeds (2^64 divided by the golden ratio, odd).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

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
    /// The true content signed an hour ago; sent once.
    pub stale_timestamp_percent: u8,
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
            ("create.error_before_commit_percent", self.create.error_before_commit_percent),
            ("create.error_after_commit_percent", self.create.error_after_commit_percent),
            ("create.drop_after_commit_percent", self.create.drop_after_commit_percent),
            ("create.hang_after_commit_percent", self.create.hang_after_commit_percent),
            ("refund.fail_percent", self.refund.fail_percent),
            ("refund.silent_percent", self.refund.silent_percent),
            ("refund.error_before_commit_percent", self.refund.error_before_commit_percent),
            ("refund.error_after_commit_percent", self.refund.error_after_commit_percent),
            ("refund.drop_after_commit_percent", self.refund.drop_after_commit_percent),
            ("refund.hang_after_commit_percent", self.refund.hang_after_commit_percent),
        ];
        if let Some((field, _)) = percents.iter().find(|(_, percent)| *percent > 100) {
            return Err(format!("{field} must be 0 to 100"));
        }
        let ranges = [
            ("notice_delay_ms", self.notice_delay_ms),
            ("auto_pay.delay_ms", self.auto_pay.as_ref().map_or([0, 0], |auto| auto.delay_ms)),
            ("create.delay_ms", self.create.delay_ms),
            ("refund.done_ms", self.refund.done_ms),
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

/// What happens to the first call that makes an order or a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreateFault {
    None,
    ErrorBeforeCommit,
    ErrorAfterCommit,
    DropAfterCommit,
    HangAfterCommit,
}

/// A kind of lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lie {
    WrongAmount,
    UnknownPayNo,
    BadSignature,
    StaleTimestamp,
}

/// What happens to one order, all of it drawn when it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) create_delay_ms: u64,
    pub(crate) create_fault: CreateFault,
    pub(crate) auto_pay_ms: Option<u64>,
    pub(crate) notice_ms: u64,
    pub(crate) notice_repeats: u32,
    pub(crate) lost_first: bool,
    pub(crate) told_closed_after: bool,
    /// Each with the wait before it is told, milliseconds.
    pub(crate) lies: Vec<(Lie, u64)>,
}

impl Fate {
    /// The fate of the `ordinal`-th order of the plan. Every draw is made whatever the others give, so that one setting of a
    /// plan can be changed without changing what the rest does.
    pub(crate) fn draw(plan: &Plan, ordinal: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(plan.seed.wrapping_add(ordinal.wrapping_mul(SPREAD)));
        let mut hit = |percent: u8| rng.random_range(0..100_u8) < percent;
        let auto_pay = hit(plan.auto_pay.as_ref().map_or(0, |auto| auto.percent));
        let lost_first = hit(plan.lose_percent);
        let told_closed_after = hit(plan.reorder_percent);
        let told = [
            (Lie::WrongAmount, hit(plan.lies.wrong_amount_percent)),
            (Lie::UnknownPayNo, hit(plan.lies.unknown_pay_no_percent)),
            (Lie::BadSignature, hit(plan.lies.bad_signature_percent)),
            (Lie::StaleTimestamp, hit(plan.lies.stale_timestamp_percent)),
        ];
        let create = [
            (CreateFault::ErrorBeforeCommit, hit(plan.create.error_before_commit_percent)),
            (CreateFault::ErrorAfterCommit, hit(plan.create.error_after_commit_percent)),
            (CreateFault::DropAfterCommit, hit(plan.create.drop_after_commit_percent)),
            (CreateFault::HangAfterCommit, hit(plan.create.hang_after_commit_percent)),
        ];
        let mut wait = |[low, high]: [u64; 2]| rng.random_range(low..=high.max(low));
        let auto_pay_ms = wait(plan.auto_pay.as_ref().map_or([0, 0], |auto| auto.delay_ms));
        Self {
            create_delay_ms: wait(plan.create.delay_ms),
            create_fault: create.iter().find(|(_, hit)| *hit).map_or(CreateFault::None, |(fault, _)| *fault),
            auto_pay_ms: auto_pay.then_some(auto_pay_ms),
            notice_ms: wait(plan.notice_delay_ms),
            notice_repeats: plan.notice_repeats,
            lost_first,
            told_closed_after,
            lies: told
                .map(|(lie, hit)| (lie, hit, wait(plan.notice_delay_ms)))
                .into_iter()
                .filter(|(_, hit, _)| *hit)
                .map(|(lie, _, ms)| (lie, ms))
                .collect(),
        }
    }
}

/// What happens to one refund, all of it drawn when it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefundFate {
    pub(crate) fault: CreateFault,
    pub(crate) done_ms: u64,
    pub(crate) fails: bool,
    pub(crate) silent: bool,
    pub(crate) notice_ms: u64,
    pub(crate) notice_repeats: u32,
    pub(crate) lost_first: bool,
}

impl RefundFate {
    /// The fate of the `ordinal`-th refund of the plan; from a stream of its own, so that refunds change no order's fate.
    pub(crate) fn draw(plan: &Plan, ordinal: u64) -> Self {
        let seed = !plan.seed;
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(ordinal.wrapping_mul(SPREAD)));
        let mut hit = |percent: u8| rng.random_range(0..100_u8) < percent;
        let faults = [
            (CreateFault::ErrorBeforeCommit, hit(plan.refund.error_before_commit_percent)),
            (CreateFault::ErrorAfterCommit, hit(plan.refund.error_after_commit_percent)),
            (CreateFault::DropAfterCommit, hit(plan.refund.drop_after_commit_percent)),
            (CreateFault::HangAfterCommit, hit(plan.refund.hang_after_commit_percent)),
        ];
        let (fails, silent) = (hit(plan.refund.fail_percent), hit(plan.refund.silent_percent));
        let lost_first = hit(plan.lose_percent);
        let mut wait = |[low, high]: [u64; 2]| rng.random_range(low..=high.max(low));
        Self {
            fault: faults.iter().find(|(_, hit)| *hit).map_or(CreateFault::None, |(fault, _)| *fault),
            done_ms: wait(plan.refund.done_ms),
            fails,
            silent,
            notice_ms: wait(plan.notice_delay_ms),
            notice_repeats: plan.notice_repeats,
            lost_first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storm(seed: u64) -> Plan {
        Plan {
            seed,
            auto_pay: Some(AutoPay { percent: 90, delay_ms: [1, 50] }),
            notice_repeats: 3,
            notice_delay_ms: [0, 100],
            reorder_percent: 30,
            lose_percent: 20,
            lies: Lies { wrong_amount_percent: 10, bad_signature_percent: 50, ..Lies::default() },
            create: CreateFaults { error_after_commit_percent: 10, ..CreateFaults::default() },
            refund: RefundFaults::default(),
        }
    }

    fn fates(plan: &Plan) -> Vec<Fate> {
        (0..1000).map(|ordinal| Fate::draw(plan, ordinal)).collect()
    }

    #[test]
    fn a_run_of_one_seed_repeats_and_another_seed_differs() {
        assert_eq!(fates(&storm(1)), fates(&storm(1)));
        assert_ne!(fates(&storm(1)), fates(&storm(2)));
    }

    #[test]
    fn percentages_hold_over_many_orders() {
        let fates = fates(&storm(7));
        let count = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count();
        assert!((870..=930).contains(&count(|fate| fate.auto_pay_ms.is_some())));
        assert!((160..=240).contains(&count(|fate| fate.lost_first)));
        assert!((250..=350).contains(&count(|fate| fate.told_closed_after)));
        assert!((430..=570).contains(&count(|f| f.lies.iter().any(|(lie, _)| *lie == Lie::BadSignature))));
        assert_eq!(count(|fate| fate.lies.iter().any(|(lie, _)| *lie == Lie::UnknownPayNo)), 0);
        assert!((60..=140).contains(&count(|fate| fate.create_fault == CreateFault::ErrorAfterCommit)));
    }

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
