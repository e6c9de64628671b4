//! `payctl refund open`. Ages are by the databases' clocks.

use sqlx::{FromRow, PgPool};

use crate::show::{age, money};

/// Rows that each list shows; the oldest first, and how many there are is told.
const ROWS_MAX: i64 = 200;

#[derive(Debug, FromRow)]
struct Refund {
    refund_no: String,
    kind: String,
    pay_no: String,
    amount: i64,
    currency: String,
    state: String,
    approval: String,
    requested_by: Option<String>,
    seconds: i64,
    still_seconds: i64,
    tries: i32,
    last_error: Option<String>,
    rows: i64,
}

#[derive(Debug, FromRow)]
struct Receipt {
    place: String,
    pay_no: String,
    amount: i64,
    currency: String,
    reason: String,
    state: String,
    refund_no: Option<String>,
    seconds: i64,
    rows: i64,
}

#[derive(Debug, FromRow)]
struct Balance {
    account_code: String,
    currency: String,
    held: i64,
    payments: i64,
    seconds: Option<i64>,
}

pub(super) async fn run(payment: &PgPool, ledger: &PgPool) -> Result<(), sqlx::Error> {
    refunds(payment).await?;
    receipts(payment).await?;
    balances(ledger).await
}

async fn refunds(pool: &PgPool) -> Result<(), sqlx::Error> {
    let rows: Vec<Refund> = sqlx::query_as(
        "SELECT refund_no, kind, pay_no, amount, currency, state, approval, requested_by, tries, last_error,
                EXTRACT(EPOCH FROM now() - created_at)::BIGINT AS seconds,
                EXTRACT(EPOCH FROM now() - updated_at)::BIGINT AS still_seconds, COUNT(*) OVER () AS rows
         FROM refund WHERE state IN ('PENDING', 'SUBMITTED', 'PROCESSING') ORDER BY created_at LIMIT $1",
    )
    .bind(ROWS_MAX)
    .fetch_all(pool)
    .await?;
    println!("{} refunds that have not ended · 未完结退款", rows.first().map_or(0, |row| row.rows));
    for row in rows {
        println!(
            "  {}  {:<7}  {:<10}  {:<10}  age {:<7} unchanged {:<7} tries {:<3} {}  of {}",
            row.refund_no,
            row.kind,
            row.state,
            row.approval,
            age(row.seconds),
            age(row.still_seconds),
            row.tries,
            money(row.amount, &row.currency),
            row.pay_no,
        );
        if let Some(name) = row.requested_by {
            println!("      asked by · 申请人 {name}");
        }
        if let Some(words) = row.last_error {
            println!("      {words}");
        }
    }
    Ok(())
}

async fn receipts(pool: &PgPool) -> Result<(), sqlx::Error> {
    let rows: Vec<Receipt> = sqlx::query_as(
        "SELECT channel || '/' || channel_account || '/' || channel_txn_id AS place, pay_no, amount, currency, reason, state,
                refund_no, EXTRACT(EPOCH FROM now() - created_at)::BIGINT AS seconds, COUNT(*) OVER () AS rows
         FROM unexpected_receipt WHERE state IN ('OPEN', 'REFUNDING') ORDER BY created_at LIMIT $1",
    )
    .bind(ROWS_MAX)
    .fetch_all(pool)
    .await?;
    println!("{} receipts that no payment wanted · 未处理的意外收款", rows.first().map_or(0, |row| row.rows));
    for row in rows {
        println!(
            "  {:<9}  {:<18}  age {:<7} {}  {}  under {}  refund {}",
            row.state,
            row.reason,
            age(row.seconds),
            money(row.amount, &row.currency),
            row.place,
            row.pay_no,
            row.refund_no.as_deref().unwrap_or("-"),
        );
    }
    Ok(())
}

/// What should be zero when all is settled. Only accounts that are not are looked into, by all their postings.
async fn balances(pool: &PgPool) -> Result<(), sqlx::Error> {
    let rows: Vec<Balance> = sqlx::query_as(
        "SELECT b.account_code, a.currency, b.held, w.payments, w.seconds
         FROM (SELECT account_code, SUM(credit - debit)::BIGINT AS held FROM account_balance
               WHERE account_code LIKE 'suspense:%' OR account_code LIKE 'transit:%'
               GROUP BY account_code HAVING SUM(credit - debit) <> 0) b
         JOIN account a ON a.code = b.account_code
         CROSS JOIN LATERAL (
               SELECT COUNT(*) AS payments, EXTRACT(EPOCH FROM now() - MIN(moved_at))::BIGINT AS seconds
               FROM (SELECT MAX(e.posted_at) AS moved_at FROM posting p JOIN entry e ON e.entry_id = p.entry_id
                     WHERE p.account_code = b.account_code GROUP BY e.pay_no
                     HAVING SUM(CASE p.side WHEN 'C' THEN p.amount ELSE -p.amount END) <> 0) AS left_over) AS w
         ORDER BY b.account_code",
    )
    .fetch_all(pool)
    .await?;
    println!("{} balances that are not zero yet · 未清零余额", rows.len());
    for row in rows {
        println!(
            "  {:<40}  {}  of {} payments, the oldest unmoved for {}",
            row.account_code,
            money(row.held, &row.currency),
            row.payments,
            row.seconds.map_or_else(|| "-".to_owned(), age),
        );
    }
    Ok(())
}
