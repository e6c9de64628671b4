//! What must hold at every moment, cheap enough to be looked at all the while. Databases are read past the breakable lines.

use super::shadow::Shadow;
use super::world::World;
use crate::count;

/// What was counted at the look before: some numbers only grow.
#[derive(Debug, Default)]
pub(super) struct Invariants {
    paid: i64,
    closed: i64,
    failed: i64,
    entries: i64,
}

impl Invariants {
    pub(super) async fn look(&mut self, world: &World, shadow: &Shadow) {
        let live = "SELECT COUNT(*) FROM (SELECT 1 FROM payment WHERE state IN ('PROCESSING', 'SUCCESS')
                                          GROUP BY merchant_id, order_no HAVING COUNT(*) > 1) AS twice";
        none(shadow, "orders have two payments alive", count(world.payments(), live).await);
        let off = "SELECT COUNT(*) FROM (SELECT 1 FROM posting GROUP BY currency
                                         HAVING SUM(CASE side WHEN 'D' THEN amount ELSE -amount END) <> 0) AS off";
        none(shadow, "currencies do not balance", count(world.books(), off).await);
        // Entries first: a fact is committed before its entry, so whoever looks in this order never sees more entries.
        let booked = "SELECT COUNT(*) FROM entry WHERE kind = 'PAY_SUCCEEDED'";
        let booked = count(world.books(), booked).await;
        let paid = count(world.payments(), "SELECT COUNT(*) FROM payment WHERE state = 'SUCCESS'").await;
        none(shadow, "more entries than paid payments", booked.saturating_sub(paid).max(0));
        let closed = count(world.payments(), "SELECT COUNT(*) FROM payment WHERE state = 'CLOSED'").await;
        let failed = count(world.payments(), "SELECT COUNT(*) FROM payment WHERE state = 'FAIL'").await;
        let entries = count(world.books(), "SELECT COUNT(*) FROM entry").await;
        for (what, before, now) in [
            ("paid payments", &mut self.paid, paid),
            ("closed payments", &mut self.closed, closed),
            ("failed payments", &mut self.failed, failed),
            ("entries", &mut self.entries, entries),
        ] {
            if now < *before {
                shadow.found(format!("{what} fell from {before} to {now}"));
            }
            *before = now;
        }
    }
}

fn none(shadow: &Shadow, what: &str, rows: i64) {
    if rows > 0 {
        shadow.found(format!("{rows} {what}, at a moment of the run"));
    }
}
