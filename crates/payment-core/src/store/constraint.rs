//! Names of the constraints in `migrations/payment`, as the database tells them. `xtask tidy` compares the two lists.

/// G5: one row for one attempt.
pub(crate) const UK_ORDER_ATTEMPT: &str = "uk_order_attempt";
/// G5: one live payment for an order.
pub(crate) const UK_ORDER_LIVE: &str = "uk_order_live";
/// G6: a terminal state is never left.
pub(crate) const TR_TERMINAL_STATE: &str = "tr_terminal_state";
/// G7: one row for one fact of a channel.
pub(crate) const UK_CB: &str = "uk_cb";
/// G10: never more than was paid.
pub(crate) const CK_REFUND_WITHIN_PAID: &str = "ck_refund_within_paid";

/// G10: one refund for one unwanted receipt.
pub(crate) const UK_REFUND_RECEIPT: &str = "uk_refund_receipt";
/// G10: one refund for one request.
pub(crate) const UK_REFUND_REQUEST: &str = "uk_refund_request";
/// G10: one refund of a payment in flight.
pub(crate) const UK_REFUND_LIVE: &str = "uk_refund_live";
/// G10: a refund ends once and never goes back.
pub(crate) const TR_REFUND_TERMINAL_STATE: &str = "tr_refund_terminal_state";

/// The guards that no statement of ours may ever meet: meeting one is a fault of the code, and an alert.
pub(crate) const JUDGES: [&str; 9] = [
    UK_ORDER_ATTEMPT,
    UK_ORDER_LIVE,
    TR_TERMINAL_STATE,
    UK_CB,
    CK_REFUND_WITHIN_PAID,
    UK_REFUND_RECEIPT,
    UK_REFUND_REQUEST,
    UK_REFUND_LIVE,
    TR_REFUND_TERMINAL_STATE,
];
