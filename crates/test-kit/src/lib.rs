#![doc = include_str!("../README.md")]
#![expect(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a library of tests: it fails by panicking in the test, and speaks to the person who runs it"
)]

mod background;
pub mod channels;
pub mod db;
pub mod env;
pub mod kafka;
pub mod name;
pub mod process;
pub mod proxy;
pub mod redis;
pub mod wait;

pub use channels::{Account, ChannelsFile, channels_file};
pub use db::Db;
pub use kafka::{Record, Topic, assert_real_kafka};
pub use name::{free_port, merchant, seed, unique};
pub use process::Process;
pub use proxy::Proxy;
pub use redis::{PrivateRedis, redis_url};
pub use wait::wait_for;
