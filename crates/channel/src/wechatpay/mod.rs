//! WeChat Pay.

mod settings;

pub(crate) use settings::RawSettings;
pub use settings::Settings;
