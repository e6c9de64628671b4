//! The printed table.

use super::{Cell, Row, Scenario};

/// Columns on screen of a row's name, and of a cell.
const NAME: usize = 16;
const CELL: usize = 14;

/// Prints the table.
pub fn print(played: &[(&Row, Vec<(Scenario, Cell)>)]) {
    println!(
        "\n  charges at the channel / entries in the books · 渠道扣款 / 入账分录    ✗ an expectation is broken · 不符\n"
    );
    for line in 0..3 {
        let headings =
            Scenario::ALL.map(|scenario| scenario.heading().get(line).copied().unwrap_or_default());
        let label = if line == 2 { "gate · 闸口" } else { "" };
        let cells: String = headings.iter().map(|heading| pad(heading, CELL)).collect();
        println!("  {}{cells}{}", pad(label, NAME), if line == 2 { "removed · 移除" } else { "" });
    }
    for (row, cells) in played {
        let cells: String = Scenario::ALL
            .iter()
            .map(|scenario| {
                let cell = cells.iter().find(|(played, _)| played == scenario);
                pad(&cell.map(|(_, cell)| text(cell)).unwrap_or_default(), CELL)
            })
            .collect();
        println!("  {}{cells}{}", pad(row.name, NAME), row.removed);
    }
    println!();
    for (row, cells) in played {
        for (scenario, cell) in cells.iter().filter(|(_, cell)| !cell.broken.is_empty()) {
            println!("  {}, {}: {}", row.name, scenario.name(), cell.broken.join("; "));
        }
    }
}

fn text(cell: &Cell) -> String {
    let mark = if cell.broken.is_empty() { "" } else { " ✗" };
    format!("{} / {}{mark}", cell.charges, cell.entries)
}

/// Pads to a width on screen; a Chinese character takes two columns.
fn pad(text: &str, width: usize) -> String {
    let columns: usize = text.chars().map(|c| if c > '\u{2e80}' { 2 } else { 1 }).sum();
    format!("{text}{}", " ".repeat(width.saturating_sub(columns)))
}
