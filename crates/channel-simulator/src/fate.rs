//! What becomes of each order and each refund, drawn from the plan's seed.
//!
//! The n-th order after a plan was set has the same fate in every run of the same plan: fates are drawn from the seed and
//! from n, never from one stream that concurrent requests would share in the order of their luck.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::plan::Plan;

/// Spreads neighbouring numbers over the whole range of seeds (2^64 divided by the golden ratio, odd).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What happens to the first call that makes an order or a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreateFault {
    None,
    ErrorBeforeCommit,
    ErrorAfterCommit,
    DropAfterCommit,
    HangAfterCommit,
    BadAnswerSignature,
}

/// A kind of lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lie {
    WrongAmount,
    UnknownPayNo,
    BadSignature,
    StaleTimestamp,
    ForeignAccount,
    ProbeSignature,
}

impl Lie {
    /// Whether it is sent once: receivers refuse it, so that repeats would never end.
    pub(crate) fn is_told_once(self) -> bool {
        !matches!(self, Self::WrongAmount | Self::UnknownPayNo)
    }
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
        let auto_pay = hit(&mut rng, plan.auto_pay.as_ref().map_or(0, |auto| auto.percent));
        let lost_first = hit(&mut rng, plan.lose_percent);
        let told_closed_after = hit(&mut rng, plan.reorder_percent);
        let told = [
            (Lie::WrongAmount, hit(&mut rng, plan.lies.wrong_amount_percent)),
            (Lie::UnknownPayNo, hit(&mut rng, plan.lies.unknown_pay_no_percent)),
            (Lie::BadSignature, hit(&mut rng, plan.lies.bad_signature_percent)),
            (Lie::StaleTimestamp, hit(&mut rng, plan.lies.stale_timestamp_percent)),
        ];
        let create = [
            (CreateFault::ErrorBeforeCommit, hit(&mut rng, plan.create.error_before_commit_percent)),
            (CreateFault::ErrorAfterCommit, hit(&mut rng, plan.create.error_after_commit_percent)),
            (CreateFault::DropAfterCommit, hit(&mut rng, plan.create.drop_after_commit_percent)),
            (CreateFault::HangAfterCommit, hit(&mut rng, plan.create.hang_after_commit_percent)),
        ];
        let auto_pay_ms = wait(&mut rng, plan.auto_pay.as_ref().map_or([0, 0], |auto| auto.delay_ms));
        let mut fate = Self {
            create_delay_ms: wait(&mut rng, plan.create.delay_ms),
            create_fault: create.iter().find(|(_, hit)| *hit).map_or(CreateFault::None, |(fault, _)| *fault),
            auto_pay_ms: auto_pay.then_some(auto_pay_ms),
            notice_ms: wait(&mut rng, plan.notice_delay_ms),
            notice_repeats: plan.notice_repeats,
            lost_first,
            told_closed_after,
            lies: told
                .map(|(lie, hit)| (lie, hit, wait(&mut rng, plan.notice_delay_ms)))
                .into_iter()
                .filter(|(_, hit, _)| *hit)
                .map(|(lie, _, ms)| (lie, ms))
                .collect(),
        };
        // Drawn after all that was there before them, so that a seed's run stays what it was.
        for (lie, percent) in [
            (Lie::ForeignAccount, plan.lies.foreign_account_percent),
            (Lie::ProbeSignature, plan.lies.probe_signature_percent),
        ] {
            let ms = wait(&mut rng, plan.notice_delay_ms);
            if hit(&mut rng, percent) {
                fate.lies.push((lie, ms));
            }
        }
        let bad_signature = hit(&mut rng, plan.create.bad_answer_signature_percent);
        if bad_signature && fate.create_fault == CreateFault::None {
            fate.create_fault = CreateFault::BadAnswerSignature;
        }
        fate
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
    pub(crate) stuck: bool,
    pub(crate) abnormal: bool,
    /// Failed after its success, this long after.
    pub(crate) returned_ms: Option<u64>,
}

impl RefundFate {
    /// The fate of the `ordinal`-th refund of the plan; from a stream of its own, so that refunds change no order's fate.
    pub(crate) fn draw(plan: &Plan, ordinal: u64) -> Self {
        let seed = !plan.seed;
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(ordinal.wrapping_mul(SPREAD)));
        let faults = [
            (CreateFault::ErrorBeforeCommit, hit(&mut rng, plan.refund.error_before_commit_percent)),
            (CreateFault::ErrorAfterCommit, hit(&mut rng, plan.refund.error_after_commit_percent)),
            (CreateFault::DropAfterCommit, hit(&mut rng, plan.refund.drop_after_commit_percent)),
            (CreateFault::HangAfterCommit, hit(&mut rng, plan.refund.hang_after_commit_percent)),
        ];
        let (fails, silent) =
            (hit(&mut rng, plan.refund.fail_percent), hit(&mut rng, plan.refund.silent_percent));
        let lost_first = hit(&mut rng, plan.lose_percent);
        let mut fate = Self {
            fault: faults.iter().find(|(_, hit)| *hit).map_or(CreateFault::None, |(fault, _)| *fault),
            done_ms: wait(&mut rng, plan.refund.done_ms),
            fails,
            silent,
            notice_ms: wait(&mut rng, plan.notice_delay_ms),
            notice_repeats: plan.notice_repeats,
            lost_first,
            stuck: hit(&mut rng, plan.refund.stuck_percent),
            abnormal: hit(&mut rng, plan.refund.abnormal_percent),
            returned_ms: None,
        };
        let returned = hit(&mut rng, plan.refund.fail_after_success_percent);
        fate.returned_ms = Some(wait(&mut rng, plan.refund.fail_after_ms)).filter(|_| returned);
        if hit(&mut rng, plan.refund.bad_answer_signature_percent) && fate.fault == CreateFault::None {
            fate.fault = CreateFault::BadAnswerSignature;
        }
        fate
    }
}

fn hit(rng: &mut StdRng, percent: u8) -> bool {
    rng.random_range(0..100_u8) < percent
}

fn wait(rng: &mut StdRng, [low, high]: [u64; 2]) -> u64 {
    rng.random_range(low..=high.max(low))
}

#[cfg(test)]
mod tests {
    use crate::plan::{AutoPay, CreateFaults, Lies, RefundFaults};

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
}
