//! Settings: one documented struct for each service, read from a TOML file (`ONCEPAY_CONFIG`, section named after the
//! service) and then from `ONCEPAY_<SERVICE>__<FIELD>` variables.

use std::fmt;
use std::path::Path;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Why settings could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text names the field; the variable is told beside it.
    #[error(
        "settings of {service} are incomplete: {detail} (set {prefix}__<FIELD>, or [{service}] in the file that ONCEPAY_CONFIG names)"
    )]
    Incomplete { service: String, prefix: String, detail: String },
}

/// Reads the settings of `service` (its crate name, for example `payment-core`).
///
/// # Errors
/// [`Error::Incomplete`] naming the field that is missing or wrong.
pub fn load<T: DeserializeOwned>(service: &str) -> Result<T, Error> {
    let section = service.replace('-', "_");
    let prefix = format!("ONCEPAY_{}", section.to_uppercase());
    let incomplete = |error: config::ConfigError| Error::Incomplete {
        service: section.clone(),
        prefix: prefix.clone(),
        detail: error.to_string(),
    };
    let mut builder = config::Config::builder();
    if let Some(path) = std::env::var_os("ONCEPAY_CONFIG") {
        let file = config::Config::builder()
            .add_source(config::File::from(Path::new(&path)))
            .build()
            .map_err(incomplete)?;
        if let Ok(table) = file.get_table(&section) {
            for (key, value) in table {
                builder = builder.set_default(key, value).map_err(incomplete)?;
            }
        }
    }
    let environment =
        config::Environment::with_prefix(&prefix).prefix_separator("__").separator("__").try_parsing(true);
    builder.add_source(environment).build().and_then(config::Config::try_deserialize).map_err(incomplete)
}

/// A secret setting. It has no default, never prints, and is wiped when dropped. A value `file:<path>` is read from
/// that file, without the line break at its end.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(SecretString::from(value.into()))
    }

    /// The value, for the one call that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let value = match text.strip_prefix("file:") {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| {
                    serde::de::Error::custom(format!("the secret's file {path} cannot be read: {error}"))
                })?
                .trim_end_matches(['\r', '\n'])
                .to_owned(),
            None => text,
        };
        if value.is_empty() {
            return Err(serde::de::Error::custom("a secret is empty"));
        }
        Ok(Self::new(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints() {
        let secret = Secret::new("hunter2");
        assert!(!format!("{secret:?}").contains("hunter2"));
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read to see it refused")]
    struct Settings {
        database_url: Secret,
    }

    #[test]
    fn a_missing_field_is_named_with_its_variable() {
        let error = load::<Settings>("no-such-service").unwrap_err().to_string();
        assert!(error.contains("database_url") && error.contains("ONCEPAY_NO_SUCH_SERVICE__"), "{error}");
    }
}
