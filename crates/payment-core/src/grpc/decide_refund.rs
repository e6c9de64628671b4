//! `DecideRefund`: a second person's word about a refund above the limit; agreed to, it is sent at once.

use contract::core::{DecideRefundRequest, DecideRefundResponse};
use contract::validate;
use pay_types::{Actor, Invalid, RefundReason};

use super::{Core, convert, create_refund};
use crate::Error;
use crate::refund::decide::{self, Decision};

pub(super) async fn handle(core: &Core, request: DecideRefundRequest) -> Result<DecideRefundResponse, Error> {
    let decided_by: Actor = request
        .decided_by
        .parse()
        .map_err(|invalid: Invalid| validate::invalid(Invalid::new("decided_by", invalid.rule)))?;
    let note: RefundReason = request.note.parse().map_err(|_| {
        validate::invalid(Invalid::new("note", "must be 1 to 200 characters: say why it is decided so"))
    })?;
    let decision = Decision {
        refund_no: request.refund_no.parse().map_err(validate::invalid)?,
        decided_by,
        note,
        approve: request.approve,
    };
    let refund = decide::decide(&core.channels.pool, &decision, core.channels.clock.now()).await?;
    if !refund.state.is_terminal() {
        // Its end is not waited for: the operator reads it, and the job takes over if this process dies.
        drop(create_refund::go_on(core, refund.clone()));
    }
    Ok(DecideRefundResponse { refund: Some(convert::refund(refund)) })
}
