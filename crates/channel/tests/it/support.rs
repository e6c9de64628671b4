//! What the tests share.

use std::sync::Arc;

use channel::{Account, Accounts};

/// The account of the published vectors, called at `base_url`.
pub(crate) fn account(base_url: &str) -> Arc<Account> {
    Arc::clone(accounts(base_url).iter().next().unwrap())
}

fn accounts(base_url: &str) -> Accounts {
    Accounts::parse(&format!(
        r#"
[[account]]
channel = "generic"
account = "main"
base_url = "{base_url}"
notify_url = "http://127.0.0.1:2/v1/callbacks/generic/main"
current_key_id = "k1"
[[account.key]]
key_id = "k0"
secret = "generic-secret-previous-000"
[[account.key]]
key_id = "k1"
secret = "generic-secret-current-0001"
"#
    ))
    .unwrap()
}
