//! Keys of both sides: what a real channel would hand out, and what a merchant would make.
//!
//! A folder holds one file for each key, number and secret, and from them two files are written: `channels.toml` for our
//! services, and `simulator.toml` for the simulator. What is there already is kept, so that the same keys can be written out
//! under other addresses. All files are readable by their owner only.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rand::Rng as _;
use rand::distr::Alphanumeric;
use rcgen::{CertificateParams, DnType, KeyPair, PKCS_RSA_SHA256, RsaKeySize, SerialNumber};

/// Accounts that every channel gets. The first is the channel's default.
pub const ACCOUNTS: [&str; 2] = ["main", "second"];

/// Why keys could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path} cannot be written or read; name a folder of your own")]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("a key cannot be made")]
    Key(#[from] rcgen::Error),
}

/// The two files that the folder's keys were written out to.
#[derive(Debug, Clone)]
pub struct Files {
    /// For our services; the generic channel's accounts are in it too, and the simulator reads those.
    pub channels: PathBuf,
    /// For the simulator: `keys_file`.
    pub simulator: PathBuf,
}

/// Makes what the folder lacks, and writes both files for these addresses (`http://host:port`).
///
/// # Errors
/// [`Error`] naming the file.
pub fn write(dir: &Path, simulator_url: &str, receiver_url: &str) -> Result<Files, Error> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|source| Error::File { path: dir.to_owned(), source })?;
    let mut ours =
        String::from("# Made by `channel-simulator keys`: the accounts as our services know them.\n");
    let mut theirs =
        String::from("# Made by `channel-simulator keys`: the accounts as the channels know them.\n");
    for (number, account) in (1_u8..).zip(ACCOUNTS) {
        let one = Account { dir, account, number, simulator_url, receiver_url };
        one.generic(&mut ours)?;
        one.alipay(&mut ours, &mut theirs)?;
        one.wechatpay(&mut ours, &mut theirs)?;
        one.stripe(&mut ours, &mut theirs)?;
    }
    let files = Files { channels: dir.join("channels.toml"), simulator: dir.join("simulator.toml") };
    private(&files.channels, &ours)?;
    private(&files.simulator, &theirs)?;
    Ok(files)
}

struct Account<'a> {
    dir: &'a Path,
    account: &'a str,
    number: u8,
    simulator_url: &'a str,
    receiver_url: &'a str,
}

impl Account<'_> {
    fn generic(&self, ours: &mut String) -> Result<(), Error> {
        let secret = self.kept("generic", "secret", || Ok(random_hex(32)))?;
        self.head(ours, "generic", self.simulator_url);
        put(ours, "current_key_id = \"k1\"\n[[account.key]]\nkey_id = \"k1\"\n");
        value(ours, "secret", &secret);
        Ok(())
    }

    fn alipay(&self, ours: &mut String, theirs: &mut String) -> Result<(), Error> {
        let app = self.rsa("alipay", "app")?;
        let channel = self.rsa("alipay", "channel")?;
        let app_id = format!("20210000000000{:02}", self.number);
        let seller_id = format!("20880000000000{:02}", self.number);
        self.head(ours, "alipay", &format!("{}/gateway.do", self.simulator_url));
        put(ours, "[account.alipay]\n");
        value(ours, "app_id", &app_id);
        value(ours, "seller_id", &seller_id);
        value(ours, "product", "page");
        value(ours, "app_private_key", &app.private);
        put(ours, "[[account.alipay.public_key]]\n");
        value(ours, "pem", &channel.public);

        self.their_head(theirs, "alipay");
        put(theirs, "[account.alipay]\n");
        value(theirs, "app_id", &app_id);
        value(theirs, "seller_id", &seller_id);
        value(theirs, "app_public_key", &app.public);
        value(theirs, "private_key", &channel.private);
        Ok(())
    }

    fn wechatpay(&self, ours: &mut String, theirs: &mut String) -> Result<(), Error> {
        let mchid = format!("19000000{:02}", self.number);
        let appid = format!("wx00000000000000{:02}", self.number);
        let merchant = self.certified("wechatpay", "merchant", &mchid)?;
        let platform = self.certified("wechatpay", "platform", "Tenpay.com Root CA")?;
        let public_key = self.rsa("wechatpay", "public-key")?;
        let public_key_id = format!("PUB_KEY_ID_01{mchid}2026010100000000");
        let api_v3_key = self.kept("wechatpay", "api-v3-key", || Ok(random_letters(32)))?;
        self.head(ours, "wechatpay", self.simulator_url);
        self.their_head(theirs, "wechatpay");
        for table in [&mut *ours, &mut *theirs] {
            put(table, "[account.wechatpay]\n");
            value(table, "mchid", &mchid);
            value(table, "appid", &appid);
            value(table, "merchant_serial", &merchant.serial);
            value(table, "api_v3_key", &api_v3_key);
        }
        value(ours, "product", "native");
        value(ours, "merchant_private_key", &merchant.pair.private);
        put(ours, "[[account.wechatpay.platform_certificate]]\n");
        value(ours, "pem", &platform.certificate);
        put(ours, "[[account.wechatpay.public_key]]\n");
        value(ours, "id", &public_key_id);
        value(ours, "pem", &public_key.public);

        value(theirs, "merchant_public_key", &merchant.pair.public);
        // The two accounts differ, so that notices under both kinds of key are met with.
        let notices = if self.number == 1 { &platform.serial } else { &public_key_id };
        value(theirs, "notice_serial", notices);
        put(theirs, "[[account.wechatpay.key]]\n");
        value(theirs, "serial", &platform.serial);
        value(theirs, "private_key", &platform.pair.private);
        value(theirs, "certificate", &platform.certificate);
        put(theirs, "[[account.wechatpay.key]]\n");
        value(theirs, "serial", &public_key_id);
        value(theirs, "private_key", &public_key.private);
        Ok(())
    }

    fn stripe(&self, ours: &mut String, theirs: &mut String) -> Result<(), Error> {
        let key = self.kept("stripe", "secret-key", || Ok(format!("sk_live_{}", random_letters(48))))?;
        let webhook =
            self.kept("stripe", "webhook-secret", || Ok(format!("whsec_{}", random_letters(32))))?;
        self.head(ours, "stripe", self.simulator_url);
        self.their_head(theirs, "stripe");
        for table in [&mut *ours, &mut *theirs] {
            put(table, "[account.stripe]\n");
            value(table, "secret_key", &key);
            put(table, "livemode = true\n");
        }
        value(ours, "product", "checkout");
        value(theirs, "webhook_url", &self.notify_url("stripe"));
        for table in [ours, theirs] {
            put(table, "[[account.stripe.webhook_secret]]\n");
            value(table, "secret", &webhook);
        }
        Ok(())
    }

    fn notify_url(&self, channel: &str) -> String {
        format!("{}/v1/callbacks/{channel}/{}", self.receiver_url, self.account)
    }

    fn head(&self, table: &mut String, channel: &str, base_url: &str) {
        self.their_head(table, channel);
        value(table, "base_url", base_url);
        value(table, "notify_url", &self.notify_url(channel));
    }

    fn their_head(&self, table: &mut String, channel: &str) {
        put(table, "\n[[account]]\n");
        value(table, "channel", channel);
        value(table, "account", self.account);
    }

    /// What the folder holds under this name; made and put there when it holds nothing.
    fn kept(
        &self,
        channel: &str,
        name: &str,
        make: impl FnOnce() -> Result<String, Error>,
    ) -> Result<String, Error> {
        let path = self.dir.join(format!("{channel}-{}.{name}", self.account));
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let text = make()?;
                private(&path, &text)?;
                Ok(text)
            }
            Err(source) => Err(Error::File { path, source }),
        }
    }

    fn rsa(&self, channel: &str, name: &str) -> Result<Pair, Error> {
        let make = || Ok(KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?.serialize_pem());
        let private = self.kept(channel, &format!("{name}.private.pem"), make)?;
        let pair = KeyPair::from_pem_and_sign_algo(&private, &PKCS_RSA_SHA256)?;
        let public = self.kept(channel, &format!("{name}.public.pem"), || Ok(pair.public_key_pem()))?;
        Ok(Pair { private, public })
    }

    fn certified(&self, channel: &str, name: &str, common_name: &str) -> Result<Certified, Error> {
        let pair = self.rsa(channel, name)?;
        let serial = self.kept(channel, &format!("{name}.serial"), || Ok(serial()))?;
        let certificate = self.kept(channel, &format!("{name}.certificate.pem"), || {
            let key = KeyPair::from_pem_and_sign_algo(&pair.private, &PKCS_RSA_SHA256)?;
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CountryName, "CN");
            params.distinguished_name.push(DnType::OrganizationName, "Oncepay simulator");
            params.distinguished_name.push(DnType::CommonName, common_name);
            params.serial_number = Some(SerialNumber::from(hex::decode(&serial).unwrap_or_default()));
            // Longer than any demo lives; the clock is not asked, so that tests may set it.
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2050, 1, 1);
            Ok(params.self_signed(&key)?.pem())
        })?;
        Ok(Certified { pair, serial, certificate })
    }
}

struct Pair {
    private: String,
    public: String,
}

struct Certified {
    pair: Pair,
    serial: String,
    certificate: String,
}

/// 20 bytes in upper-case hex; the first byte keeps the number positive and its length fixed.
fn serial() -> String {
    let mut bytes: [u8; 20] = rand::random();
    bytes[0] = 0x5a;
    hex::encode_upper(bytes)
}

fn random_hex(bytes: usize) -> String {
    rand::rng().random_iter::<u8>().take(bytes).fold(String::new(), |mut text, byte| {
        put(&mut text, &format!("{byte:02x}"));
        text
    })
}

fn random_letters(count: usize) -> String {
    rand::rng().sample_iter(Alphanumeric).take(count).map(char::from).collect()
}

fn put(table: &mut String, text: &str) {
    table.push_str(text);
}

/// One line of TOML, or several for a PEM text. None of our values holds a quote.
fn value(table: &mut String, name: &str, text: &str) {
    let quote = if text.contains('\n') { "'''" } else { "\"" };
    let line_break = if text.contains('\n') { "\n" } else { "" };
    writeln!(table, "{name} = {quote}{line_break}{text}{quote}").expect("a string takes all text");
}

/// Writes a file that only its owner can read: made beside its place and then moved there, so that nobody sees half of it.
fn private(path: &Path, text: &str) -> Result<(), Error> {
    let fault = |source| Error::File { path: path.to_owned(), source };
    let new = path.with_extension("new");
    match std::fs::remove_file(&new) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(fault(error)),
    }
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(fault)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(fault)?;
    std::fs::rename(&new, path).map_err(fault)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Fails when a file is readable by others, when keys are made anew, or when the two files disagree.
    #[test]
    fn keys_are_private_and_kept_and_both_files_fit() {
        let dir = std::env::temp_dir().join(format!("oncepay-keys-{:x}", rand::random::<u64>()));
        let files = write(&dir, "http://127.0.0.1:1", "http://127.0.0.1:2").unwrap();
        let first = std::fs::read_to_string(&files.simulator).unwrap();
        let ours: toml::Table = std::fs::read_to_string(&files.channels).unwrap().parse().unwrap();
        let theirs: toml::Table = first.parse().unwrap();
        assert_eq!(ours["account"].as_array().unwrap().len(), 8);
        assert_eq!(theirs["account"].as_array().unwrap().len(), 6);
        for entry in std::fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
        }
        let again = write(&dir, "http://127.0.0.1:3", "http://127.0.0.1:2").unwrap();
        assert_eq!(std::fs::read_to_string(&again.simulator).unwrap(), first, "the same keys");
        let ours = std::fs::read_to_string(&again.channels).unwrap();
        assert!(ours.contains("http://127.0.0.1:3/gateway.do") && !ours.contains("127.0.0.1:1"));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
