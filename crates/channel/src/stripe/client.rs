//! Calls to Stripe. Nothing is sent twice: whether a second call is safe is decided above, in `guard.rs` and where the
//! payment's row is.
//!
//! **Repeats.** A create carries `Idempotency-Key: pay:<pay_no>`, a refund `refund:<refund_no>`, so that the channel answers a
//! repeat with its first answer, a 500 included, and does nothing again. It keeps keys for a day and no longer promises
//! anything then: a create that is repeated later is a second order. So no create is sent for a number older than
//! [`KEY_KEPT`]. A refund may have waited for days before it is sent first, so its age says nothing; before a repeat the core
//! asks, and the list of a transaction's refunds is complete at any time.
//!
//! **Asking.** With the channel's number of the order, `pi_…` or `cs_…`, we ask for just that. Without it, the answer to the
//! create having been lost, we search the intents for our number. The search is some minutes behind, and a session has no
//! intent before its payer acts, so that *nothing found* is no more than *not known now*: the core may send the same create
//! again, whose repeated first answer has the number. When the key is too old for that, the answer is that nothing is known.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{StatusCode, Uri};
use pay_types::{ChannelWord, Money, PayNo};
use serde_json::{Map, Value};
use service_kit::Clock;

use super::amount::{currency_to_stripe, to_stripe};
use super::exchange::{Ask, Exchange};
use super::form::Form;
use super::object;
use super::settings::{Product, Settings};
use super::told::{self, Expected, unknown};
use crate::accounts::Account;
use crate::port::{
    ChannelClient, Closed, CreateOrder, CreateRefund, Created, Credential, FindOrder, FindRefund, Outcome,
    Queried, RefundTold,
};
use crate::strict_json;

/// How long after a number was made its create may be sent: the channel keeps keys for 24 hours, and the last try must reach
/// it within them.
pub const KEY_KEPT: Duration = Duration::from_secs(23 * 3_600);
/// A session lives for half an hour at least from when the channel makes it, which is some time after our number was made;
/// this is reckoned from the number, so that a repeat says the same.
const SESSION_S_MIN: i64 = 40 * 60;
/// It lives for a day at most; clocks differ.
const SESSION_S_MAX: i64 = 24 * 3_600 - 5 * 60;
/// Longest address or secret for the payer that is kept.
const CREDENTIAL_BYTES_MAX: usize = 2048;
/// Intents looked at when we search: there is one for each number, unless somebody wrote our number onto others.
const FOUND_MAX: &str = "10";

/// The code of calls that were not sent because the channel may no longer know the number as used.
pub const KEY_TOO_OLD: &str = "IDEMPOTENCY_KEY_TOO_OLD";
/// The code of closes for which the channel's number of the order is needed, and not found.
const ORDER_NOT_FOUND: &str = "ORDER_NOT_FOUND";
/// The code of closes of an order that can be closed neither now nor ever be paid for certain: a payment is under way.
const NOT_CLOSABLE: &str = "NOT_CLOSABLE_NOW";

/// Calls over one account.
#[derive(Debug)]
pub struct Client {
    pub(super) settings: Arc<Settings>,
    pub(super) exchange: Exchange,
    clock: Clock,
    return_url: String,
}

/// Which object the channel's number of an order names. It outlives a change of the account's product.
enum Order<'a> {
    Intent(&'a str),
    Session(&'a str),
}

impl<'a> Order<'a> {
    fn of(id: &'a str) -> Option<Self> {
        if object::is_id(id, "pi_") {
            Some(Self::Intent(id))
        } else if object::is_id(id, "cs_") {
            Some(Self::Session(id))
        } else {
            None
        }
    }
}

impl ChannelClient for Client {
    fn create<'a>(&'a self, order: &'a CreateOrder) -> BoxFuture<'a, Outcome<Created>> {
        self.create_order(order).boxed()
    }

    fn query<'a>(&'a self, order: &'a FindOrder) -> BoxFuture<'a, Outcome<Queried>> {
        self.query_order(order).boxed()
    }

    fn close<'a>(&'a self, order: &'a FindOrder) -> BoxFuture<'a, Outcome<Closed>> {
        self.close_order(order).boxed()
    }

    fn refund<'a>(&'a self, refund: &'a CreateRefund) -> BoxFuture<'a, Outcome<RefundTold>> {
        self.make_refund(refund).boxed()
    }

    fn query_refund<'a>(&'a self, refund: &'a FindRefund) -> BoxFuture<'a, Outcome<RefundTold>> {
        self.find_refund(refund).boxed()
    }
}

impl Client {
    /// A client of an account.
    #[must_use]
    pub fn new(
        account: &Account,
        settings: &Arc<Settings>,
        http: reqwest::Client,
        limit: Duration,
        clock: Clock,
    ) -> Self {
        Self {
            settings: Arc::clone(settings),
            exchange: Exchange::new(http, account.base_url(), limit),
            clock,
            return_url: settings.return_url.clone().unwrap_or_else(|| front_page(account.notify_url())),
        }
    }

    fn expected<'a>(&self, pay_no: &'a PayNo) -> Expected<'a> {
        Expected { pay_no, livemode: self.settings.livemode }
    }

    /// Whether a repeated create is surely answered as the first one was.
    fn is_key_kept(&self, pay_no: &PayNo) -> bool {
        let age_ms = self.clock.now_ms().saturating_sub(pay_no.made_at_ms());
        Duration::from_millis(age_ms) < KEY_KEPT
    }

    async fn create_order(&self, order: &CreateOrder) -> Outcome<Created> {
        let Some(amount) = to_stripe(order.amount) else { return not_sayable() };
        if !self.is_key_kept(&order.pay_no) {
            return retry_later(KEY_TOO_OLD);
        }
        let (path, form) = match self.settings.product {
            Product::Checkout => ("/v1/checkout/sessions", self.session_form(order, amount)),
            Product::PaymentIntent => ("/v1/payment_intents", intent_form(order, amount)),
        };
        // One key whatever the product is: after a change of it, a repeat is refused and not a second order.
        let key = format!("pay:{}", order.pay_no);
        match self.exchange.send(&self.settings, path, Ask::Post(form, Some(key))).await {
            Ok(answer) if answer.status.is_success() => self.created(order, &answer.body),
            Ok(answer) => answer.refused(),
            Err(why) => unknown(why),
        }
    }

    /// A repeat is the same bytes: nothing here depends on when it is sent.
    fn session_form(&self, order: &CreateOrder, amount: i64) -> Form {
        let made_at = i64::try_from(order.pay_no.made_at_ms() / 1000).unwrap_or(i64::MAX);
        let expires_at = order
            .expire_at
            .unix_timestamp()
            .clamp(made_at.saturating_add(SESSION_S_MIN), made_at.saturating_add(SESSION_S_MAX));
        let pay_no = order.pay_no.as_str();
        let price = ["line_items", "0", "price_data"];
        let [items, first, price_data] = price;
        Form::default()
            .put(&["mode"], "payment")
            .put(&["client_reference_id"], pay_no)
            .put(&["metadata", "pay_no"], pay_no)
            // Of the intent, of its charge and with them of all their events.
            .put(&["payment_intent_data", "metadata", "pay_no"], pay_no)
            .put(&["payment_intent_data", "description"], order.subject.as_str())
            .put(&[items, first, "quantity"], "1")
            .put(&[items, first, price_data, "currency"], &currency_to_stripe(order.amount.currency()))
            .put(&[items, first, price_data, "unit_amount"], &amount.to_string())
            .put(&[items, first, price_data, "product_data", "name"], order.subject.as_str())
            // In another currency than ours an amount could not be compared.
            .put(&["adaptive_pricing", "enabled"], "false")
            .put(&["expires_at"], &expires_at.to_string())
            .put(&["success_url"], &self.return_url)
            .put(&["cancel_url"], &self.return_url)
    }

    fn created(&self, order: &CreateOrder, body: &Map<String, Value>) -> Outcome<Created> {
        let (kind, prefix, field, amount) = match self.settings.product {
            Product::Checkout => ("checkout.session", "cs_", "url", "amount_total"),
            Product::PaymentIntent => ("payment_intent", "pi_", "client_secret", "amount"),
        };
        if let Err(why) = self.expected(&order.pay_no).check(body, kind) {
            return unknown(why);
        }
        if !object::stated(body, amount).is_some_and(|stated| is_ours(&stated, order.amount)) {
            return unknown("the order is for another amount");
        }
        let Some(id) = object::id(body, prefix) else { return unknown("the order has no id") };
        let text = strict_json::text(body, field)
            .filter(|text| (1..=CREDENTIAL_BYTES_MAX).contains(&text.len()))
            .map(str::to_owned);
        let credential = match (text, self.settings.product) {
            (Some(url), Product::Checkout) => Credential::PayUrl(url),
            (Some(text), Product::PaymentIntent) => Credential::ClientSecret(text),
            (None, _) => return unknown("the order has nothing for the payer in it"),
        };
        // The first answer, also when it is repeated: nothing was paid then.
        Outcome::Accepted(Created { credential, channel_txn_id: None, channel_order_no: Some(id.to_owned()) })
    }

    async fn query_order(&self, order: &FindOrder) -> Outcome<Queried> {
        match order.channel_order_no.as_deref().map(Order::of) {
            Some(Some(Order::Intent(id))) => self.get_intent(id, &order.pay_no).await,
            Some(Some(Order::Session(id))) => self.get_session(id, &order.pay_no).await,
            Some(None) => unknown("the channel's number of the order is none of this channel"),
            None => {
                let kept = self.is_key_kept(&order.pay_no);
                self.search(&order.pay_no).await.and_then(|found| match found {
                    Some(intent) => told::intent(&intent, self.expected(&order.pay_no)),
                    None if kept => Outcome::Accepted(Queried::not_known()),
                    // A repeat of the create would no longer be one.
                    None => retry_later(KEY_TOO_OLD),
                })
            }
        }
    }

    async fn get_intent(&self, id: &str, pay_no: &PayNo) -> Outcome<Queried> {
        let path = format!("/v1/payment_intents/{id}");
        let query = Form::default().put(&["expand", ""], "latest_charge");
        self.get(&path, query).await.and_then(|body| told::intent(&body, self.expected(pay_no)))
    }

    async fn get_session(&self, id: &str, pay_no: &PayNo) -> Outcome<Queried> {
        let path = format!("/v1/checkout/sessions/{id}");
        let query = Form::default().put(&["expand", ""], "payment_intent.latest_charge");
        self.get(&path, query).await.and_then(|body| told::session(&body, self.expected(pay_no)))
    }

    /// The intent that carries our number; a paid one before an open one before a canceled one.
    async fn search(&self, pay_no: &PayNo) -> Outcome<Option<Map<String, Value>>> {
        let query = Form::default()
            .put(&["query"], &format!("metadata['pay_no']:'{pay_no}'"))
            .put(&["limit"], FOUND_MAX)
            .put(&["expand", ""], "data.latest_charge");
        self.get("/v1/payment_intents/search", query).await.and_then(|body| {
            let Some(found) = body.get("data").and_then(Value::as_array) else {
                return unknown("the answer is no list");
            };
            let intent = found
                .iter()
                .filter_map(Value::as_object)
                .filter(|intent| object::has_number(intent, "pay_no", pay_no.as_str()))
                .min_by_key(|intent| match strict_json::text(intent, "status") {
                    Some("succeeded") => 0_u8,
                    Some("canceled") => 2,
                    Some(_) | None => 1,
                });
            Outcome::Accepted(intent.cloned())
        })
    }

    /// The one kind of call that may take two exchanges, one of which only asks.
    async fn close_order(&self, order: &FindOrder) -> Outcome<Closed> {
        let pay_no = &order.pay_no;
        match order.channel_order_no.as_deref().map(Order::of) {
            Some(Some(Order::Intent(id))) => self.cancel_intent(id, pay_no).await,
            Some(Some(Order::Session(id))) => self.expire_session(id, pay_no).await,
            Some(None) => unknown("the channel's number of the order is none of this channel"),
            None => {
                let found = self.search(pay_no).await.and_then(|found| match found {
                    Some(intent) => told::intent(&intent, self.expected(pay_no)),
                    None => retry_later(ORDER_NOT_FOUND),
                });
                if let Outcome::Accepted(Queried { word: None, channel_txn_id: Some(id), .. }) = &found {
                    return self.cancel_intent(id.as_str(), pay_no).await;
                }
                found.and_then(closed)
            }
        }
    }

    /// Without a key: a cancel can be repeated, and a kept answer would say what was true before.
    async fn cancel_intent(&self, id: &str, pay_no: &PayNo) -> Outcome<Closed> {
        let path = format!("/v1/payment_intents/{id}/cancel");
        let form = Form::default().put(&["cancellation_reason"], "abandoned");
        let answer = match self.exchange.send(&self.settings, &path, Ask::Post(form, None)).await {
            Ok(answer) => answer,
            Err(why) => return unknown(why),
        };
        if answer.status.is_success() {
            return told::intent(&answer.body, self.expected(pay_no)).and_then(closed);
        }
        // It was paid or canceled before, and the refusal says so.
        let stands = answer.error().and_then(|error| error.get("payment_intent")).and_then(Value::as_object);
        match stands {
            Some(intent) if answer.error_text("code") == "payment_intent_unexpected_state" => {
                told::intent(intent, self.expected(pay_no)).and_then(closed)
            }
            Some(_) | None => answer.refused(),
        }
    }

    async fn expire_session(&self, id: &str, pay_no: &PayNo) -> Outcome<Closed> {
        let path = format!("/v1/checkout/sessions/{id}/expire");
        let answer = match self.exchange.send(&self.settings, &path, Ask::Post(Form::default(), None)).await {
            Ok(answer) => answer,
            Err(why) => return unknown(why),
        };
        if answer.status.is_success() {
            return told::session(&answer.body, self.expected(pay_no)).and_then(closed);
        }
        // *Only open sessions can be expired* has no code, and does not say what became of this one.
        if answer.status == StatusCode::BAD_REQUEST && answer.error_text("code").is_empty() {
            return self.get_session(id, pay_no).await.and_then(closed);
        }
        answer.refused()
    }

    pub(super) async fn get(&self, path: &str, query: Form) -> Outcome<Map<String, Value>> {
        match self.exchange.send(&self.settings, path, Ask::Get(query)).await {
            Ok(answer) if answer.status.is_success() => Outcome::Accepted(answer.body),
            Ok(answer) => answer.refused(),
            Err(why) => unknown(why),
        }
    }
}

fn intent_form(order: &CreateOrder, amount: i64) -> Form {
    Form::default()
        .put(&["amount"], &amount.to_string())
        .put(&["currency"], &currency_to_stripe(order.amount.currency()))
        .put(&["automatic_payment_methods", "enabled"], "true")
        .put(&["description"], order.subject.as_str())
        .put(&["metadata", "pay_no"], order.pay_no.as_str())
}

fn closed(queried: Queried) -> Outcome<Closed> {
    match queried.word {
        Some(ChannelWord::Paid) => Outcome::Accepted(Closed::AlreadyPaid(queried)),
        Some(ChannelWord::Closed | ChannelWord::Failed) => Outcome::Accepted(Closed::Closed),
        None => retry_later(NOT_CLOSABLE),
    }
}

fn is_ours(stated: &crate::port::StatedAmount, amount: Money) -> bool {
    stated.minor == amount.minor() && stated.currency == amount.currency().code()
}

/// Refused before it is sent: rounded, it would be another amount.
pub(super) fn not_sayable<T>() -> Outcome<T> {
    Outcome::Rejected {
        code: "FIELD_INVALID".to_owned(),
        message: "the channel cannot take this amount of this currency".to_owned(),
    }
}

fn retry_later<T>(code: &str) -> Outcome<T> {
    Outcome::RetryLater { code: code.to_owned() }
}

/// The front page of an address's host.
fn front_page(address: &str) -> String {
    let parts = address.parse::<Uri>().ok().map(Uri::into_parts);
    match parts.and_then(|parts| parts.scheme.zip(parts.authority)) {
        Some((scheme, authority)) => format!("{scheme}://{authority}/"),
        None => address.to_owned(),
    }
}
