//! What an account's table may be.

use channel::{Accounts, Protocol};

use super::support::{API_V3_KEY, APPID, CERTIFICATE, MERCHANT, PUBLIC_KEY, Pair, Table};

fn table() -> String {
    Table::new("https://api.example", vec![&CERTIFICATE], vec![&PUBLIC_KEY]).toml()
}

/// The error of a table with one thing changed; it holds nothing secret.
fn error(from: &str, to: &str) -> String {
    let text = table().replacen(from, to, 1);
    assert_ne!(text, table(), "{from} is not in the table");
    let error = Accounts::parse(&text).unwrap_err().to_string();
    assert!(!error.contains(API_V3_KEY) && !error.contains("PRIVATE"), "{error}");
    error
}

#[test]
fn a_good_table_is_read_and_nothing_secret_is_printed() {
    let accounts = Accounts::parse(&table()).unwrap();
    let account = accounts.iter().next().unwrap();
    let Protocol::WechatPay(settings) = account.protocol() else { panic!("another protocol") };
    assert_eq!(settings.appid(), APPID);
    let printed = format!("{settings:?}");
    assert!(!printed.contains(API_V3_KEY) && !printed.contains(&MERCHANT.private_pem[60..90]), "{printed}");
}

#[test]
fn a_fault_names_its_field_and_remedy() {
    let elliptic =
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----";
    for (from, to, told) in [
        ("mchid = \"1900000001\"", "mchid = \"19 1\"", "mchid must be"),
        (APPID, "", "appid must be"),
        ("\"native\"", "\"jsapi\"", "jsapi"),
        ("\"native\"", "\"h5\"\nh5_payer_ip = \"here\"", "h5_payer_ip must be"),
        (API_V3_KEY, "sixteen-bytes-00", "api_v3_key must be the 32 bytes"),
        ("merchant_serial = \"3775", "merchant_serial = \"no hex ", "merchant_serial must be"),
        (&MERCHANT.private_pem[..], "no key", "merchant_private_key must be"),
        (&MERCHANT.private_pem[..], &PUBLIC_KEY.pem, "merchant_private_key must be"),
        (&CERTIFICATE.pem[..], &PUBLIC_KEY.pem, "platform_certificate.pem must be"),
        (&CERTIFICATE.pem[..], elliptic, "platform_certificate.pem must be"),
        (&PUBLIC_KEY.pem[..], elliptic, "public_key.pem must be"),
        ("id = \"PUB_KEY_ID_", "id = \"KEY_", "public_key.id must be"),
        ("api_v3_key = ", "api_v3_keys = ", "api_v3_key"),
    ] {
        let error = error(from, to);
        assert!(error.contains(told), "{told}: {error}");
    }
    let twice = Table::new("https://api.example", vec![&CERTIFICATE, &CERTIFICATE], vec![]).toml();
    assert!(Accounts::parse(&twice).unwrap_err().to_string().contains("twice"));
}

/// A merchant who has the public key of a certificate only tells its serial beside it.
#[test]
fn a_bare_public_key_with_a_serial_stands_for_its_certificate() {
    let pair = Pair::public_key("5157F09EFDC096DE15EBE81A47057A7200000009");
    let text = Table::new("https://api.example", vec![&pair], vec![]).toml();
    assert!(Accounts::parse(&text).is_err());
    let told = format!("platform_certificate]]\nserial = \"{}\"", pair.id);
    assert!(Accounts::parse(&text.replace("platform_certificate]]", &told)).is_ok());
}
