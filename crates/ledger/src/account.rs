//! The chart of accounts: which accounts there are, on which side they grow, and how their codes are written.
//!
//! A code is built from checked names, which cannot hold a `:`; two different accounts therefore never share a code.

use std::fmt;
use std::str::FromStr;

use pay_types::{ChannelAccount, ChannelCode, Currency, Invalid, MerchantId};

/// Longest code, bytes. The longest that the chart can build has 87; the rest is room for accounts to come.
pub const CODE_BYTES_MAX: usize = 200;

/// The five classes of bookkeeping, without equity: Oncepay holds other people's money and has none of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccountType {
    /// What we own or are owed.
    Asset,
    /// What we owe.
    Liability,
    /// What we earn.
    Income,
    /// What we spend.
    Expense,
}

impl AccountType {
    pub const ALL: [Self; 4] = [Self::Asset, Self::Liability, Self::Income, Self::Expense];

    /// As `account.type` holds it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asset => "ASSET",
            Self::Liability => "LIABILITY",
            Self::Income => "INCOME",
            Self::Expense => "EXPENSE",
        }
    }
}

impl FromStr for AccountType {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or(Invalid::new("type", "must be ASSET, LIABILITY, INCOME or EXPENSE"))
    }
}

/// Side of a posting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    Debit,
    Credit,
}

impl Side {
    /// As `posting.side` holds it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debit => "D",
            Self::Credit => "C",
        }
    }
}

impl FromStr for Side {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "D" => Ok(Self::Debit),
            "C" => Ok(Self::Credit),
            _ => Err(Invalid::new("side", "must be D or C")),
        }
    }
}

/// The accounts that we keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccountKind {
    Clearing,
    Payable,
    Suspense,
    Transit,
    Fees,
    Bank,
}

/// One line of the chart.
#[derive(Debug, Clone, Copy)]
pub struct ChartLine {
    /// First part of the code.
    pub prefix: &'static str,
    /// The rest of the code.
    pub per: &'static str,
    pub account_type: AccountType,
    /// The side on which it grows.
    pub normal_side: Side,
    /// What it holds, for the documents.
    pub meaning: &'static str,
}

impl AccountKind {
    pub const ALL: [Self; 6] =
        [Self::Clearing, Self::Payable, Self::Suspense, Self::Transit, Self::Fees, Self::Bank];

    /// The chart of accounts.
    #[must_use]
    pub fn line(self) -> ChartLine {
        let line = |prefix, per, account_type, normal_side, meaning| ChartLine {
            prefix,
            per,
            account_type,
            normal_side,
            meaning,
        };
        let (asset, liability, expense) = (AccountType::Asset, AccountType::Liability, AccountType::Expense);
        let (debit, credit) = (Side::Debit, Side::Credit);
        let (place, merchant) = ("{channel}:{account}:{currency}", "{merchant}:{currency}");
        match self {
            Self::Clearing => line("clearing", place, asset, debit, "what the channel holds for us"),
            Self::Payable => line("payable", merchant, liability, credit, "what we owe the merchant"),
            Self::Suspense => line("suspense", place, liability, credit, "money that no payment wanted"),
            Self::Transit => line("transit", place, liability, credit, "refunds on their way to payers"),
            Self::Fees => line("fees", place, expense, debit, "what the channel took for its work"),
            Self::Bank => line("bank", place, asset, debit, "what the channel has paid out to us"),
        }
    }
}

/// Code of an account, for example `clearing:generic:main:CNY`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountCode(String);

impl AccountCode {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AccountCode {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let valid =
            !text.is_empty() && text.len() <= CODE_BYTES_MAX && text.bytes().all(|b| b.is_ascii_graphic());
        if valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("account_code", "must be 1 to 200 printable ASCII characters without blanks"))
        }
    }
}

impl fmt::Display for AccountCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An account of the chart, in one currency.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Account {
    code: AccountCode,
    kind: AccountKind,
    currency: Currency,
}

impl Account {
    /// What the channel holds for us.
    #[must_use]
    pub fn clearing(channel: ChannelCode, account: &ChannelAccount, currency: Currency) -> Self {
        Self::at_channel(AccountKind::Clearing, channel, account, currency)
    }

    /// What we owe the merchant.
    #[must_use]
    pub fn payable(merchant_id: &MerchantId, currency: Currency) -> Self {
        let prefix = AccountKind::Payable.line().prefix;
        let code = AccountCode(format!("{prefix}:{merchant_id}:{currency}"));
        Self { code, kind: AccountKind::Payable, currency }
    }

    /// Money that no payment wanted.
    #[must_use]
    pub fn suspense(channel: ChannelCode, account: &ChannelAccount, currency: Currency) -> Self {
        Self::at_channel(AccountKind::Suspense, channel, account, currency)
    }

    /// Refunds on their way to payers.
    #[must_use]
    pub fn transit(channel: ChannelCode, account: &ChannelAccount, currency: Currency) -> Self {
        Self::at_channel(AccountKind::Transit, channel, account, currency)
    }

    /// What the channel took for its work.
    #[must_use]
    pub fn fees(channel: ChannelCode, account: &ChannelAccount, currency: Currency) -> Self {
        Self::at_channel(AccountKind::Fees, channel, account, currency)
    }

    /// What the channel has paid out to us.
    #[must_use]
    pub fn bank(channel: ChannelCode, account: &ChannelAccount, currency: Currency) -> Self {
        Self::at_channel(AccountKind::Bank, channel, account, currency)
    }

    fn at_channel(
        kind: AccountKind,
        channel: ChannelCode,
        account: &ChannelAccount,
        currency: Currency,
    ) -> Self {
        let code = AccountCode(format!("{}:{channel}:{account}:{currency}", kind.line().prefix));
        Self { code, kind, currency }
    }

    #[must_use]
    pub fn code(&self) -> &AccountCode {
        &self.code
    }

    #[must_use]
    pub fn kind(&self) -> AccountKind {
        self.kind
    }

    #[must_use]
    pub fn currency(&self) -> Currency {
        self.currency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cny() -> Currency {
        Currency::from_code("CNY").unwrap()
    }

    #[test]
    fn codes_are_written_as_documented() {
        let main: ChannelAccount = "main".parse().unwrap();
        let code = |account: Account| account.code().as_str().to_owned();
        assert_eq!(code(Account::clearing(ChannelCode::Generic, &main, cny())), "clearing:generic:main:CNY");
        assert_eq!(code(Account::suspense(ChannelCode::Stripe, &main, cny())), "suspense:stripe:main:CNY");
        assert_eq!(code(Account::transit(ChannelCode::Alipay, &main, cny())), "transit:alipay:main:CNY");
        assert_eq!(code(Account::fees(ChannelCode::WechatPay, &main, cny())), "fees:wechatpay:main:CNY");
        assert_eq!(code(Account::bank(ChannelCode::Generic, &main, cny())), "bank:generic:main:CNY");
        assert_eq!(code(Account::payable(&"M1".parse().unwrap(), cny())), "payable:M1:CNY");
    }

    /// An account of a liability grows on credit, one of an asset or expense on debit; a slip in the chart would turn
    /// the sign of every balance in it.
    #[test]
    fn each_account_grows_on_the_side_of_its_type() {
        for kind in AccountKind::ALL {
            let line = kind.line();
            let debit = matches!(line.account_type, AccountType::Asset | AccountType::Expense);
            assert_eq!(line.normal_side, if debit { Side::Debit } else { Side::Credit }, "{}", line.prefix);
        }
    }

    #[test]
    fn the_longest_names_make_a_code_within_the_limit() {
        let name = "x".repeat(64);
        let longest = Account::suspense(ChannelCode::WechatPay, &name.parse().unwrap(), cny());
        assert_eq!(longest.code().as_str().len(), 87);
        assert!(longest.code().as_str().parse::<AccountCode>().is_ok());
    }
}
