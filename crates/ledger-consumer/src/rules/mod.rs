//! What becomes of each kind of fact: one file for each kind that is booked, in words that finance can check against
//! the postings table of the design. The rules are pure.

pub mod pay_succeeded;
pub mod receipt_unexpected;
pub mod receipt_withdrawn;
pub mod refund_failed;
pub mod refund_returned;
pub mod refund_submitted;
pub mod refund_succeeded;

use ledger::{Account, EntryKind, NewEntry};

use crate::fact::{Fact, Kind, RefundKind};

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
        Kind::RefundReturned => (EntryKind::RefundReturned, refund_returned::entry(fact)),
        // A payment that was asked for, failed or closed: nobody owes anybody anything.
        Kind::PayCreated | Kind::PayFailed | Kind::PayClosed => return None,
        // A refund that was asked for or turned down has not left; one that the channel took has left already.
        Kind::RefundCreated | Kind::RefundRejected | Kind::RefundAccepted => return None,
    };
    Some(NewEntry {
        msg_key: fact.msg_key.clone(),
        kind,
        merchant_id: fact.merchant_id.clone(),
        order_no: fact.order_no.clone(),
        pay_no: fact.pay_no.clone(),
        refund_no: fact.refund.as_ref().map(|refund| refund.refund_no.clone()),
        occurred_at: fact.occurred_at,
        body,
    })
}

/// Whose money a refund gives back: the merchant's, or nobody's.
///
/// # Panics
/// Never for a fact about a refund, which has its refund.
fn source(fact: &Fact) -> Account {
    let currency = fact.amount.currency();
    let refund = fact.refund.as_ref().expect("a fact about a refund has its refund");
    match refund.kind {
        RefundKind::Payment => Account::payable(&fact.merchant_id, currency),
        RefundKind::Receipt => Account::suspense(fact.channel, &fact.channel_account, currency),
    }
}

#[cfg(test)]
mod tests {
    use ledger::Side;
    use pay_types::{AttemptNo, ChannelCode, Currency, Money};
    use time::OffsetDateTime;

    use super::*;
    use crate::fact::Refund;

    fn fact(kind: Kind, gives_back: RefundKind) -> Fact {
        let refund_no = "R0000000000000000000000000000".parse().unwrap();
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
            refund: kind.is_refund().then_some(Refund { refund_no, kind: gives_back }),
            occurred_at: OffsetDateTime::UNIX_EPOCH,
        }
    }

    fn lines(kind: Kind, gives_back: RefundKind) -> Option<Vec<(Side, String, i64)>> {
        let entry = entry(&fact(kind, gives_back))?;
        assert_eq!(entry.kind.as_str(), kind.as_str());
        assert_eq!(entry.refund_no.is_some(), kind.is_refund());
        let lines = entry.body.postings().iter();
        Some(lines.map(|p| (p.side, p.account.code().to_string(), p.amount.minor())).collect())
    }

    fn booked(debit: &str, credit: &str) -> Option<Vec<(Side, String, i64)>> {
        Some(vec![(Side::Debit, debit.to_owned(), 1999), (Side::Credit, credit.to_owned(), 1999)])
    }

    const CLEARING: &str = "clearing:generic:main:CNY";
    const PAYABLE: &str = "payable:M1:CNY";
    const SUSPENSE: &str = "suspense:generic:main:CNY";
    const TRANSIT: &str = "transit:generic:main:CNY";

    /// The postings table of the design, line by line.
    #[test]
    fn each_kind_is_booked_as_the_design_says() {
        let of = RefundKind::Payment;
        assert_eq!(lines(Kind::PaySucceeded, of), booked(CLEARING, PAYABLE));
        assert_eq!(lines(Kind::ReceiptUnexpected, of), booked(CLEARING, SUSPENSE));
        assert_eq!(lines(Kind::ReceiptWithdrawn, of), booked(SUSPENSE, CLEARING));
        for (of, source) in [(RefundKind::Payment, PAYABLE), (RefundKind::Receipt, SUSPENSE)] {
            assert_eq!(lines(Kind::RefundSubmitted, of), booked(source, TRANSIT));
            assert_eq!(lines(Kind::RefundSucceeded, of), booked(TRANSIT, CLEARING));
            assert_eq!(lines(Kind::RefundFailed, of), booked(TRANSIT, source));
            assert_eq!(lines(Kind::RefundReturned, of), booked(CLEARING, source));
            for kind in Kind::ALL.into_iter().filter(|kind| !kind.moves_money()) {
                assert_eq!(lines(kind, of), None, "{kind:?}");
            }
        }
    }
}
