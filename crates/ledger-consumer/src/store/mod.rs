//! The consumer's own SQL; entries, balances and the log have theirs in `ledger` and `idempotency`.

pub mod parked_message;
