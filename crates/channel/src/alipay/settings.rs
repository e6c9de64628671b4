//! What an account of Alipay needs: its names there and its keys.

use serde::Deserialize;

use crate::accounts::Fault;

/// As the channels file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSettings {}

/// Checked.
#[derive(Debug)]
pub struct Settings {}

impl RawSettings {
    pub(crate) fn check(self) -> Result<Settings, Fault> {
        Ok(Settings {})
    }
}
