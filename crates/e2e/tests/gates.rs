//! One scenario for each gate, with the gate on and off; `make gates` plays them all. Alone in its program: it is the only one
//! that takes guards away.

use e2e::gates::{ROWS, Row, Scenario, judge, play};
use futures::{StreamExt as _, stream};

/// Stacks at one time, so that no storm starves another into its deadline.
const ROWS_AT_ONCE: usize = 2;

/// Without G1, G2 and G3 the database alone makes one payment; without each of G4 to G8 a scenario fails. Fails when a gate
/// guards nothing, because its scenario or its switch has gone stale.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_off_is_missed() {
    let rows = ROWS.iter().filter_map(|row| scenarios(row).map(|scenarios| (row, scenarios)));
    let played = rows.map(|(row, scenarios)| async move { judge(row, &play(row, scenarios).await) });
    let wrong: Vec<Vec<String>> = stream::iter(played).buffered(ROWS_AT_ONCE).collect().await;
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The least that shows it; `None` for rows that only the whole table has.
fn scenarios(row: &Row) -> Option<&'static [Scenario]> {
    match row.name {
        "G1 G2 G3 off" => Some(&[Scenario::SameKey, Scenario::TwoDevices]),
        _ => (!row.must_fail.is_empty()).then_some(row.must_fail),
    }
}
