//! `payctl audit`.

use std::process::ExitCode;

use sqlx::PgPool;

/// Prints every broken invariant with its rows.
pub(crate) async fn run(payment: &PgPool, ledger: &PgPool) -> anyhow::Result<ExitCode> {
    let findings = ::audit::audit(payment, ledger).await?;
    for finding in &findings {
        println!("invariant {} is broken: {}", finding.number, finding.rule);
        for row in &finding.rows {
            println!("    {row}");
        }
    }
    if findings.is_empty() {
        println!(
            "{} queries and the comparison of both databases: every invariant holds · 全部成立",
            ::audit::INVARIANTS.len()
        );
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} invariants are broken · 违例; events still on their way show as not booked", findings.len());
    Ok(ExitCode::FAILURE)
}
