#![doc = include_str!("../README.md")]

pub mod accounts;
pub mod port;

pub mod breaker;
pub mod guard;

mod registry;

pub mod rsa;
mod strict_header;
mod strict_json;

pub mod alipay;
pub mod generic;
pub mod stripe;
pub mod wechatpay;

pub use accounts::{Account, Accounts, Key, Protocol};
pub use guard::{CALLS_PER_ACCOUNT_MAX, Guard};
pub use port::{
    Answer, ChannelClient, Closed, CreateOrder, CreateRefund, Created, Credential, Fact, FindOrder,
    FindRefund, HttpAnswer, Notice, NoticeError, NoticeReader, NoticeReason, Outcome, Queried, RawNotice,
    RefundTold, StatedAmount,
};
pub use registry::{ByAccount, ClientSettings, Clients, Error, Readers, clients, readers};
