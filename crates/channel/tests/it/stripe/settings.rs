//! What an account's table may be.

use channel::{Accounts, ClientSettings, Protocol, clients, readers};
use pay_types::ChannelCode;
use service_kit::Clock;

use super::support::{NEW, OLD, SECRET_KEY, Table};

fn table() -> String {
    Table { webhook_secrets: vec![OLD, NEW], ..Table::new("https://api.example") }.toml()
}

/// The error of a table with one thing changed; it holds nothing secret.
fn error(from: &str, to: &str) -> String {
    let text = table().replacen(from, to, 1);
    assert_ne!(text, table(), "{from} is not in the table");
    let error = Accounts::parse(&text).unwrap_err().to_string();
    assert!(!error.contains("throwaway"), "{error}");
    error
}

#[test]
fn a_good_table_is_read_and_nothing_secret_is_printed() {
    let accounts = Accounts::parse(&table()).unwrap();
    let account = accounts.iter().next().unwrap();
    let Protocol::Stripe(settings) = account.protocol() else { panic!("another protocol") };
    assert!(settings.livemode());
    let printed = format!("{settings:?}");
    for secret in [SECRET_KEY, NEW, OLD, "throwaway"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

#[test]
fn an_account_has_its_client_and_its_reader() {
    let accounts = Accounts::parse(&table()).unwrap();
    let main = "main".parse().unwrap();
    let (settings, clock) = (ClientSettings::default(), Clock::system());
    assert!(clients(&accounts, &settings, &clock).unwrap().get(ChannelCode::Stripe, &main).is_some());
    assert!(readers(&accounts, &settings, &clock).unwrap().get(ChannelCode::Stripe, &main).is_some());
}

#[test]
fn a_fault_names_its_field_and_remedy() {
    let without = format!("[[account.stripe.webhook_secret]]\nsecret = \"{OLD}\"\n");
    let eight = without.repeat(9);
    for (from, to, told) in [
        (SECRET_KEY, "pk_live_throwaway_0001", "secret_key must be"),
        (SECRET_KEY, "sk_live_throw away_0001", "secret_key must be"),
        (SECRET_KEY, "sk_x", "secret_key must be"),
        (SECRET_KEY, "sk_test_throwaway_0001", "livemode must be"),
        ("livemode = true", "livemode = false", "livemode must be"),
        ("livemode = true", "", "livemode"),
        ("\"checkout\"", "\"charge\"", "charge"),
        ("\"checkout\"", "\"checkout\"\nreturn_url = \"shop\"", "return_url must be"),
        (OLD, "sk_live_throwaway_0002", "webhook_secret must be the signing secret"),
        (OLD, "whsec_", "webhook_secret must be the signing secret"),
        (OLD, NEW, "webhook_secret is there twice"),
        (without.as_str(), eight.as_str(), "webhook_secret is there twice"),
        ("product", "products", "products"),
    ] {
        let error = error(from, to);
        assert!(error.contains(told), "{to}: {error}");
    }
    let none = Table { webhook_secrets: Vec::new(), ..Table::new("https://api.example") }.toml();
    let error = Accounts::parse(&none).unwrap_err().to_string();
    assert!(error.contains("webhook_secret must be there"), "{error}");
}
