//! The proof of the gates: each is switched off in turn, with the constraints behind it, while purchases race.
//!
//! A row is a stack of its own with its gates off; a column is a scenario on orders of its own; a cell says what the channel
//! took and what the books hold. With G1 to G3 off nothing may change: they are speed and quiet. With each of G4 to G8 off a
//! named scenario must fail, or the gate would guard nothing.

mod row;
mod scenario;
mod scene;
mod table;

pub use row::{ROWS, Row};
pub use scenario::Scenario;
pub use scene::Cell;
pub use table::print;

use futures::future::join_all;

use crate::{Stack, Wish};

/// Plays scenarios on a stack with the row's gates off.
///
/// # Panics
/// When a part of the stack cannot be started.
pub async fn play(row: &Row, scenarios: &[Scenario]) -> Vec<(Scenario, Cell)> {
    let wish = Wish { order_apis: 2, gates_off: row.off.to_vec(), books: true, ..Wish::default() };
    let stack = Stack::start(wish).await;
    row.remove_guards(&stack).await;
    // The one that holds a lock waits for exactly two others, so it is played when the rest is over.
    let (alone, together): (Vec<_>, Vec<_>) =
        scenarios.iter().copied().partition(|scenario| scenario.is_alone());
    let mut cells = join_all(together.into_iter().map(|scenario| played(&stack, row, scenario))).await;
    for scenario in alone {
        cells.push(played(&stack, row, scenario).await);
    }
    if row.off.is_empty() && row.must_fail.is_empty() {
        let findings = audit::audit(stack.payments(), stack.books()).await.expect("the audit can read");
        for (_, cell) in cells.iter_mut().take(1).filter(|_| !findings.is_empty()) {
            cell.broken.push(format!("the audit is not clean: {findings:?}"));
        }
    }
    // Databases and topics are dropped by waiting: not on a thread that other rows need.
    tokio::task::spawn_blocking(move || drop(stack)).await.expect("a stack can be dropped");
    cells
}

async fn played(stack: &Stack, row: &Row, scenario: Scenario) -> (Scenario, Cell) {
    (scenario, Box::pin(scenario.play(stack, row.fresh_keys)).await)
}

/// What is wrong with a row: a scenario that should hold and does not, or one that should fail and holds.
#[must_use]
pub fn judge(row: &Row, cells: &[(Scenario, Cell)]) -> Vec<String> {
    let of = |scenario: &Scenario| cells.iter().find(|(played, _)| played == scenario).map(|(_, cell)| cell);
    if row.must_fail.is_empty() {
        let broken = cells.iter().filter(|(_, cell)| !cell.broken.is_empty());
        return broken
            .map(|(scenario, cell)| format!("{}: {}: {}", row.name, scenario.name(), cell.broken.join("; ")))
            .collect();
    }
    let held =
        row.must_fail.iter().filter(|scenario| of(scenario).is_some_and(|cell| cell.broken.is_empty()));
    held.map(|scenario| format!("{}: {} should fail, and holds", row.name, scenario.name())).collect()
}
