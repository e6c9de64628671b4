//! `make gates`: every gate switched off in turn, and what then goes wrong. Ends with 1 when a gate guards nothing, or when
//! something breaks with all of them on.
#![expect(clippy::print_stdout, reason = "it speaks to a person")]

use std::process::ExitCode;

use e2e::gates::{ROWS, Scenario, judge, play, print};
use futures::{StreamExt as _, stream};

/// Stacks at one time: two processors are then busy, and no storm starves another into its deadline.
const ROWS_AT_ONCE: usize = 2;

#[tokio::main]
async fn main() -> ExitCode {
    if !cfg!(debug_assertions) {
        println!("a release build has no switches: build this in debug mode");
        return ExitCode::from(2);
    }
    println!("each gate off in turn, on real parts · 逐个关闭闸口");
    let rows = stream::iter(ROWS).map(|row| async move {
        let cells = play(row, &Scenario::ALL).await;
        println!("  {} …", row.name);
        (row, cells)
    });
    let played: Vec<_> = rows.buffered(ROWS_AT_ONCE).collect().await;
    print(&played);
    let wrong: Vec<String> = played.iter().flat_map(|(row, cells)| judge(row, cells)).collect();
    for words in &wrong {
        println!("  NOT PROVEN · 未证明: {words}");
    }
    if wrong.is_empty() {
        println!("\n  with G1 to G3 off nothing changes; without G4 to G8 something does, each time");
        println!("  关闭 G1–G3 结果不变；关闭 G4–G8 中任何一个都会出错\n");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
