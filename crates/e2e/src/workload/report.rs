//! What came of a run, for people.

use std::collections::BTreeMap;

use super::faults::Made;
use super::shadow::Shadow;
use super::world::World;
use crate::count;

/// Counts and findings of one run.
#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    pub operations: BTreeMap<&'static str, u64>,
    pub faults: BTreeMap<String, u64>,
    pub numbers: Vec<(&'static str, i64)>,
    /// What should hold and does not; empty is a good run.
    pub findings: Vec<String>,
}

impl Report {
    pub(super) async fn collect(seed: u64, world: &World, shadow: &Shadow, faults: Made) -> Self {
        let totals = world.book().await.totals;
        let big = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (payments, books) = (world.payments(), world.books());
        let numbers = vec![
            ("calls of CreatePayment and GetPayment · 调用", big(shadow.calls().0)),
            ("keys stored by clients · 幂等键", big(shadow.all_asked().len().try_into().unwrap_or(u64::MAX))),
            ("payments · 支付单", count(payments, "SELECT COUNT(*) FROM payment").await),
            (
                "  paid · 已支付",
                count(payments, "SELECT COUNT(*) FROM payment WHERE state = 'SUCCESS'").await,
            ),
            (
                "  closed · 已关闭",
                count(payments, "SELECT COUNT(*) FROM payment WHERE state = 'CLOSED'").await,
            ),
            ("orders at the channel · 渠道订单", big(totals.orders)),
            ("charges at the channel · 渠道扣款", big(totals.charges)),
            ("genuine notices · 真实通知", big(totals.notices_sent)),
            ("wrong amounts told · 错额通知", big(totals.lies.wrong_amount)),
            (
                "unexpected receipts · 意外收款",
                count(payments, "SELECT COUNT(*) FROM unexpected_receipt").await,
            ),
            ("refunds of them at the channel · 自动退款", big(totals.refunds)),
            ("entries · 分录", count(books, "SELECT COUNT(*) FROM entry").await),
        ];
        Self { seed, operations: shadow.operations(), faults, numbers, findings: shadow.findings() }
    }

    /// Prints the table.
    pub fn print(&self) {
        println!("\n  operations · 操作");
        for (name, times) in &self.operations {
            println!("  {} {times:>10}", pad(name));
        }
        println!("\n  troubles · 故障");
        for (name, times) in &self.faults {
            println!("  {} {times:>10}", pad(name));
        }
        println!("\n  at rest · 静止后");
        for (name, number) in &self.numbers {
            println!("  {} {number:>10}", pad(name));
        }
        println!("  {} {:>10}", pad("findings · 发现"), self.findings.len());
        for words in &self.findings {
            println!("  FOUND · 发现: {words}");
        }
        println!("\n  to repeat · 重放: make chaos SEED={}\n", self.seed);
    }
}

/// Pads to the table's first column; a Chinese character takes two columns on screen.
pub(super) fn pad(text: &str) -> String {
    let columns: usize = text.chars().map(|c| if c > '\u{2e80}' { 2 } else { 1 }).sum();
    format!("{text}{}", " ".repeat(48_usize.saturating_sub(columns)))
}
