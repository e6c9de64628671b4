//! What becomes of each kind of fact: one file for each kind that is booked, in words that finance can check against
//! the postings table of the design. The rules are pure.

pub mod pay_succeeded;
pub mod receipt_unexpected;
pub mod receipt_withdrawn;
pub mod refund_failed;
pub mod refund_submitted;
pub mod refund_succeeded;

use ledger::{EntryKind, NewEntry};

use crate::fact::{Fact, Kind};

/// The entry that a fact makes; `None` for a fact that moves no money.
#[must_use]
pub fn entry(fact: &Fact) -> Option<NewEntry> {
    let (kind, body) = match fact.kind {
        Kind::PaySucceeded => (EntryKind::PaySucceeded, pay_succeeded::entry(fact)),
        Kind::ReceiptUnexpected => (EntryKind::ReceiptUnexpected, receipt_unexpected::entry(fact)),
        Kind::ReceiptWithdrawn => (EntryKind::ReceiptWithdrawn, receipt_withdrawn::entry(fact)),
        Kind::RefundSubmitted => (EntryKind::RefundSubmitted, refund_submitted::entry(fact)),
        Kind::RefundSucceeded => (EntryKind::RefundSucceeded, refund_succeeded::entry(fact)),
        Kind::RefundFailed => (EntryKind::RefundFailed, refund_failed::entry(fact)),
        // A payment that was asked for, failed or closed: nobody owes anybody anything.
        Kind::PayCreated | Kind::PayFailed | Kind::PayClosed => return None,
    };
    Some(NewEntry {
        msg_key: fact.msg_key.clone(),
        kind,
        merchant_id: fact.merchant_id.clone(),
        order_no: fact.order_no.clone(),
        pay_no: fact.pay_no.clone(),
        refund_no: fact.refund_no.clone(),
        occurred_at: fact.occurred_at,
        body,
    })
}

#[cfg(test)]
mod tests {
    use ledger::Side;
    use pay_types::{AttemptNo, ChannelCode, Currency, Money};
    use time::OffsetDateTime;

    use super::*;

    fn fact(kind: Kind) -> Fact {
        Fact {
            msg_key: "K".parse().unwrap(),
            kind,
            pay_no: "P0000000000000000000000000000".parse().unwrap(),
            merchant_id: "M1".parse().unwrap(),
            order_no: "O1".parse().unwrap(),
            attempt_no: AttemptNo::try_new(1).unwrap(),
            amount: Money::try_new(1999, Currency::from_code("CNY").unwrap()).unwrap(),
            channel: ChannelCode::Generic,
            channel_account: "main".parse().unwrap(),
            channel_txn_id: Some("T1".parse().unwrap()),
            refund_no: kind.is_refund().then(|| "R0000000000000000000000000000".parse().unwrap()),
            occurred_at: OffsetDateTime::UNIX_EPOCH,
        }
    }

    fn lines(kind: Kind) -> Option<Vec<(Side, String, i64)>> {
        let entry = entry(&fact(kind))?;
        assert_eq!(entry.kind.as_str(), kind.as_str());
        assert_eq!(entry.refund_no.is_some(), kind.is_refund());
        let lines = entry.body.postings().iter();
        Some(lines.map(|p| (p.side, p.account.code().to_string(), p.amount.minor())).collect())
    }

    /// The postings table of the design, line by line.
    #[test]
    fn each_kind_is_booked_as_the_design_says() {
        let entry = |debit: &str, credit: &str| {
            Some(vec![(Side::Debit, debit.to_owned(), 1999), (Side::Credit, credit.to_owned(), 1999)])
        };
        assert_eq!(lines(Kind::PaySucceeded), entry("clearing:generic:main:CNY", "payable:M1:CNY"));
        let suspense = entry("clearing:generic:main:CNY", "suspense:generic:main:CNY");
        assert_eq!(lines(Kind::ReceiptUnexpected), suspense);
        let back = entry("suspense:generic:main:CNY", "clearing:generic:main:CNY");
        assert_eq!(lines(Kind::ReceiptWithdrawn), back);
        let (suspense, transit, clearing) =
            ("suspense:generic:main:CNY", "transit:generic:main:CNY", "clearing:generic:main:CNY");
        assert_eq!(lines(Kind::RefundSubmitted), entry(suspense, transit));
        assert_eq!(lines(Kind::RefundSucceeded), entry(transit, clearing));
        assert_eq!(lines(Kind::RefundFailed), entry(transit, suspense));
        for kind in Kind::ALL.into_iter().filter(|kind| !kind.moves_money()) {
            assert_eq!(lines(kind), None, "{kind:?}");
        }
    }
}
