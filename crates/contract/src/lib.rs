#![doc = include_str!("../README.md")]

mod convert;
pub mod event;
pub mod key;
pub mod reason;
pub mod validate;

/// Generated code, one module for each protobuf package.
#[expect(
    clippy::all,
    clippy::doc_markdown,
    clippy::as_conversions,
    clippy::too_many_lines,
    clippy::allow_attributes_without_reason,
    unreachable_pub,
    unused_qualifications,
    reason = "generated"
)]
mod generated {
    pub mod oncepay {
        pub mod common {
            pub mod v1 {
                tonic::include_proto!("oncepay.common.v1");
            }
        }
        pub mod order {
            pub mod v1 {
                tonic::include_proto!("oncepay.order.v1");
            }
        }
        pub mod core {
            pub mod v1 {
                tonic::include_proto!("oncepay.core.v1");
            }
        }
        pub mod ledger {
            pub mod v1 {
                tonic::include_proto!("oncepay.ledger.v1");
            }
        }
        pub mod event {
            pub mod v1 {
                tonic::include_proto!("oncepay.event.v1");
            }
        }
    }
}

pub use generated::oncepay::{
    common::v1 as common, core::v1 as core, ledger::v1 as ledger, order::v1 as order,
};

pub use convert::{timestamp, timestamp_opt, to_offset_date_time};

/// All protobuf files as a descriptor set, for gRPC reflection.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
