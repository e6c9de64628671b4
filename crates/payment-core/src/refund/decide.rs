//! Deciding: a second person agrees to a refund above the limit, or turns it down. Gate G10.
//!
//! The guarantee: nothing is sent to the channel before another person than the one who asked has agreed, under a name and
//! with a reason (`ck_refund_decision`). Turned down, a refund ends before it was sent: its reservation is given back once,
//! and no money has moved.

use contract::event::kind;
use contract::reason::{Reason, Refusal};
use pay_types::{Actor, RefundNo, RefundReason, RefundState};
use service_kit::switch::kill_point;
use sqlx::PgPool;
use time::OffsetDateTime;

use crate::Error;
use crate::payment::{event, transaction};
use crate::refund::{Approval, Refund};
use crate::store;

/// A decision.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    pub(crate) refund_no: RefundNo,
    pub(crate) decided_by: Actor,
    pub(crate) note: RefundReason,
    pub(crate) approve: bool,
}

/// Applies a decision; the same one again is answered with the refund as it is.
pub(crate) async fn decide(pool: &PgPool, decision: &Decision, now: OffsetDateTime) -> Result<Refund, Error> {
    transaction::run("refund_decide", || async {
        let mut tx = pool.begin().await?;
        let numbers = std::slice::from_ref(&decision.refund_no);
        let refund = store::refund::lock_in_tx(&mut tx, &decision.refund_no)
            .await?
            .ok_or_else(|| Refusal::new(Reason::RefundNotFound, "no refund has this number"))?;
        let wanted = if decision.approve { Approval::Approved } else { Approval::Rejected };
        if refund.approval == wanted && refund.decided_by.as_deref() == Some(decision.decided_by.as_str()) {
            return Ok(refund);
        }
        may_decide(&refund, decision)?;
        if !store::refund::decide_in_tx(&mut tx, decision, wanted, now).await? {
            return Err(Error::Overtaken);
        }
        kill_point("payment_core.refund_decide.after_decision");
        let refund = store::refund::by_numbers_in_tx(&mut tx, numbers)
            .await?
            .remove(&decision.refund_no)
            .ok_or(Error::Overtaken)?;
        if refund.state == RefundState::Fail {
            let given_back = [(refund.pay_no.clone(), refund.amount.minor().saturating_neg(), 0)];
            store::payment::move_refunds_in_tx(&mut tx, &given_back, now).await?;
            kill_point("payment_core.refund_decide.after_release");
            let payments =
                store::payment::by_numbers_in_tx(&mut tx, std::slice::from_ref(&refund.pay_no)).await?;
            let payment = payments.get(&refund.pay_no).ok_or(Error::Overtaken)?;
            let cause = format!("DECISION:{}", decision.decided_by);
            let rejected = event::refund(payment, &refund, kind::REFUND_REJECTED, now, &cause, now)?;
            if store::event::append_in_tx(&mut tx, &[rejected], now).await? != 1 {
                return Err(Error::Overtaken);
            }
        }
        kill_point("payment_core.refund_decide.before_commit");
        tx.commit().await.map_err(Error::CommitUnheard)?;
        kill_point("payment_core.refund_decide.after_commit");
        Ok(refund)
    })
    .await
}

fn may_decide(refund: &Refund, decision: &Decision) -> Result<(), Refusal> {
    let words = if refund.approval != Approval::Waiting {
        format!("refund {} does not wait for a decision", refund.refund_no)
    } else if refund.requested_by.as_deref() == Some(decision.decided_by.as_str()) {
        format!("{} asked for refund {}; another person must decide", decision.decided_by, refund.refund_no)
    } else {
        return Ok(());
    };
    Err(Refusal::new(Reason::RefundNotDecidable, words).with("refund_no", refund.refund_no.as_str()))
}
