#![doc = include_str!("../README.md")]

pub mod account;
mod balance;
mod entry;
mod post;
pub mod posting;
pub mod store;

pub use account::{Account, AccountCode, AccountKind, AccountType, Side};
pub use balance::BalanceChange;
pub use entry::{EntryId, EntryKind, MSG_KEY_BYTES_MAX, MsgKey, NewEntry, Shard};
pub use post::{Error, Posted, post_in_tx};
pub use posting::{BalancedEntry, Posting};
