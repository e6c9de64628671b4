//! The table.

use crate::count::Counted;
use crate::gates::Closings;
use crate::trouble::Trouble;

/// A line: what, the number, and what it must be.
struct Line {
    label: &'static str,
    value: String,
    must: Option<i64>,
    good: bool,
}

fn must(label: &'static str, value: i64, must: i64) -> Line {
    Line { label, value: value.to_string(), must: Some(must), good: value == must }
}

fn told(label: &'static str, value: impl ToString) -> Line {
    Line { label, value: value.to_string(), must: None, good: true }
}

/// Prints the table; true when every number is what it must be.
pub(crate) fn print(counted: &Counted, closed: &Closings, trouble: &Trouble) -> bool {
    let c = counted;
    let lines = [
        told("orders · 订单", c.orders),
        told("requests sent · 请求", c.requests),
        told("  of them sent again with the same key · 同键重发", c.retries),
        must("payments · 支付单", c.payments, c.orders),
        must("payments paid · 已支付", c.paid, c.orders),
        must("orders at the channel · 渠道订单", c.channel_orders, c.orders),
        told("create calls at the channel · 渠道下单调用", c.create_calls),
        must("charges at the channel · 渠道扣款", c.charges, c.orders),
        must("amount charged, fen · 扣款金额(分)", c.charged_amount, c.paid_amount),
        must("charges that differ from our rows · 不符扣款", c.charges_differing, 0),
        told("genuine notices received · 真实通知", c.notices),
        told("lying notices · 虚假通知", c.lies),
        told("refused notices kept as evidence · 被拒通知留证", c.refused_kept),
        must("wrong amounts kept in suspense · 错额挂账", c.receipts, c.wrong_amounts),
        must("ledger entries of payments · 支付分录", c.entries, c.orders),
        must("ledger entries of unwanted receipts · 挂账分录", c.receipt_entries, c.wrong_amounts),
        must("amount booked, fen · 入账金额(分)", c.booked_amount, c.paid_amount),
        must("refunds · 退款", c.refunds, c.refunds_wanted.refunds),
        must("refunds at the channel · 渠道退款", c.channel_refunds, c.refunds_wanted.refunds),
        must("amount given back, fen · 退款金额(分)", c.channel_refunded, c.refunds_wanted.amount),
        must("amount booked as given back, fen · 退款入账(分)", c.refunds_booked, c.refunds_wanted.amount),
        must("refunds in transit, fen · 在途退款(分)", c.in_transit, 0),
        must("events waiting · 待发事件", c.waiting, 0),
        must("trial balance difference · 试算差额", c.trial_difference, 0),
        must("broken invariants · 不变量违例", i64::try_from(c.findings.len()).unwrap_or(i64::MAX), 0),
        must("wrong answers to callers · 错误应答", i64::try_from(c.wrong.len()).unwrap_or(i64::MAX), 0),
    ];
    println!();
    for line in &lines {
        let mark = match (line.must, line.good) {
            (None, _) => String::new(),
            (Some(_), true) => "ok".to_owned(),
            (Some(must), false) => format!("WRONG, must be {must}"),
        };
        println!("  {} {:>12}  {mark}", pad(line.label, 52), line.value);
    }
    println!("\n  duplicates stopped, by gate · 各闸口拦截的重复");
    for (gate, name) in GATES {
        println!("  {} {:>12}", pad(name, 52), closed.get(gate).copied().unwrap_or(0));
    }
    for line in &trouble.told {
        println!("  on the way · 途中: {line}");
    }
    for finding in &c.findings {
        println!("  broken invariant {}: {} {:?}", finding.number, finding.rule, finding.rows);
    }
    for words in &c.wrong {
        println!("  wrong: {words}");
    }
    let good = lines.iter().all(|line| line.good);
    println!(
        "\n  {}\n",
        if good {
            "every order charged once and booked once · 每单只扣一次、只记一次"
        } else {
            "NUMBERS ARE WRONG · 数字有误"
        }
    );
    good
}

const GATES: [(&str, &str); 8] = [
    ("G2", "G2 single flight · 单飞"),
    ("G3", "G3 lease · 占坑锁"),
    ("G4", "G4 idempotent log · 幂等日志"),
    ("G5", "G5 unique order · 订单唯一"),
    ("G6", "G6 forward only · 只进不退"),
    ("G7", "G7 callback · 回调"),
    ("G8", "G8 consumer · 消费去重"),
    ("G10", "G10 refund · 退款"),
];

/// Pads to a width on screen; a Chinese character takes two columns.
fn pad(text: &str, width: usize) -> String {
    let columns: usize = text.chars().map(|c| if c > '\u{2e80}' { 2 } else { 1 }).sum();
    format!("{text}{}", " ".repeat(width.saturating_sub(columns)))
}
