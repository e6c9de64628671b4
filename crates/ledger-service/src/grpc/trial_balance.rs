//! `TrialBalance`: every account, and the difference that must be zero.

use contract::ledger::{CurrencyTotal, TrialBalanceRequest, TrialBalanceResponse};
use ledger::store::report;

use super::{Books, convert};
use crate::Error;

/// Most accounts of one answer: about a megabyte on the wire.
const LINES_MAX: usize = 10_000;

pub(super) async fn handle(
    books: &Books,
    request: TrialBalanceRequest,
) -> Result<TrialBalanceResponse, Error> {
    let as_of = convert::as_of(request.as_of.as_ref(), request.basis)?;
    let mut connection = books.pool.acquire().await?;
    let trial = report::balance::trial(&mut connection, as_of, LINES_MAX).await?;
    let total = |total: report::balance::CurrencyTotal| CurrencyTotal {
        currency: total.currency,
        debit: total.debit,
        credit: total.credit,
        difference: total.difference,
    };
    Ok(TrialBalanceResponse {
        lines: trial.lines.into_iter().map(convert::balance).collect(),
        totals: trial.totals.into_iter().map(total).collect(),
    })
}
