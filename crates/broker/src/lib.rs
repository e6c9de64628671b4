#![doc = include_str!("../README.md")]

mod consumer;
mod context;
mod embedded;
mod error;
mod producer;
mod topics;

pub use consumer::{Consumer, ConsumerSettings, Message};
pub use embedded::Embedded;
pub use error::{Error, Kind};
pub use producer::{Delivery, Producer, ProducerSettings, Record};
pub use topics::{TopicSpec, ensure};
