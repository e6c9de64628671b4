//! The channel's own calls, through the port that the services use.

use channel::{Closed, Credential, FindOrder, Outcome, StatedAmount};
use pay_types::{ChannelWord, Currency, Money};
use serde_json::json;

use crate::world::world;

/// One number is one order, whoever repeats it and however often. Fails when `Book::make` does not look the number up under
/// its lock.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_equal_creates_at_once_are_one_order() {
    let world = world().await;
    let order = world.order(1000);
    let outcomes = futures::future::join_all((0..20).map(|_| world.client.create(&order))).await;
    for outcome in outcomes {
        let Outcome::Accepted(created) = outcome else { panic!("{outcome:?}") };
        let url = format!("{}/pay/{}", world.url, order.pay_no);
        assert_eq!(created.credential, Credential::PayUrl(url));
    }
    let book = world.book().await;
    assert_eq!((book.totals.orders, book.totals.create_calls, book.orders[0].create_calls), (1, 20, 20));

    let mut other = order.clone();
    other.amount = Money::try_new(1001, Currency::from_code("CNY").unwrap()).unwrap();
    let outcome = world.client.create(&other).await;
    assert!(matches!(&outcome, Outcome::Rejected { code, .. } if code == "TERMS_DIFFER"), "{outcome:?}");
}

#[tokio::test]
async fn an_order_is_asked_for_from_unknown_to_paid() {
    let world = world().await;
    let order = world.order(1000);
    let Outcome::Accepted(queried) = world.client.query(&FindOrder::by(&order.pay_no)).await else {
        panic!()
    };
    assert!(!queried.known, "before its creation");
    assert_eq!(world.client.close(&FindOrder::by(&order.pay_no)).await.label(), "retry_later");

    assert_eq!(world.client.create(&order).await.label(), "accepted");
    let Outcome::Accepted(queried) = world.client.query(&FindOrder::by(&order.pay_no)).await else {
        panic!()
    };
    assert!(queried.known && queried.word.is_none(), "unpaid");

    world.control(&format!("orders/{}/pay", order.pay_no), json!({})).await;
    let Outcome::Accepted(queried) = world.client.query(&FindOrder::by(&order.pay_no)).await else {
        panic!()
    };
    assert_eq!(queried.word, Some(ChannelWord::Paid));
    assert_eq!(queried.amount, Some(StatedAmount { minor: 1000, currency: "CNY".to_owned() }));
    let shown = world.shown(&order.pay_no).await;
    assert_eq!(queried.channel_txn_id.unwrap().as_str(), shown.channel_txn_id.unwrap());

    let Outcome::Accepted(Closed::AlreadyPaid(paid)) =
        world.client.close(&FindOrder::by(&order.pay_no)).await
    else {
        panic!()
    };
    assert_eq!(paid.word, Some(ChannelWord::Paid));
    let Outcome::Accepted(created) = world.client.create(&order).await else { panic!() };
    assert!(created.channel_txn_id.is_some(), "a repeated create of a paid order says so");
}

#[tokio::test]
async fn a_closed_order_stays_closed_and_cannot_be_paid() {
    let world = world().await;
    let pay_no = world.created().await;
    for _ in 0..2 {
        assert_eq!(world.client.close(&FindOrder::by(&pay_no)).await, Outcome::Accepted(Closed::Closed));
    }
    let (status, _) = world.try_control(&format!("orders/{pay_no}/pay"), json!({})).await;
    assert_eq!(status, 409);
    assert_eq!(world.book().await.totals.charges, 0);

    let failed = world.created().await;
    world.control(&format!("orders/{failed}/fail"), json!({})).await;
    let Outcome::Accepted(queried) = world.client.query(&FindOrder::by(&failed)).await else { panic!() };
    assert_eq!(queried.word, Some(ChannelWord::Failed));
}

/// Whatever goes wrong with the first create, the same create under the same number succeeds later, and there is one order.
/// Where the order was made, the guard's second try may find it already.
#[tokio::test]
async fn a_create_that_went_wrong_is_unknown_and_its_repeat_is_accepted() {
    let world = world().await;
    for (fault, made) in [
        ("error_before_commit_percent", 0),
        ("error_after_commit_percent", 1),
        ("drop_after_commit_percent", 1),
        ("hang_after_commit_percent", 1),
    ] {
        world.plan(json!({ "create": { fault: 100 } })).await;
        let before = world.book().await.totals.orders;
        let order = world.order(1000);
        let outcome = world.client.create(&order).await;
        let found = made == 1 && matches!(outcome, Outcome::Accepted(_));
        assert!(found || matches!(outcome, Outcome::Unknown { .. }), "{fault}: {outcome:?}");
        assert_eq!(world.book().await.totals.orders - before, made, "{fault}");
        world.plan(json!({})).await;
        assert_eq!(world.client.create(&order).await.label(), "accepted", "{fault}");
        assert_eq!(world.book().await.totals.orders - before, 1, "{fault}");
    }
}

/// A call that does not verify does nothing. Fails when `authenticate` lets it through.
#[tokio::test]
async fn a_call_with_another_secret_does_nothing() {
    let world = world().await;
    let order = world.order(1000);
    let text = std::fs::read_to_string(world.file.path()).unwrap();
    // The other account's secret under this account's name: the key id is known, the signature is not of it.
    let secrets: Vec<_> = text.lines().filter(|line| line.starts_with("secret")).collect();
    let accounts =
        channel::Accounts::parse(&text.replacen(secrets[0], "secret = \"not-the-secret-0000\"", 1)).unwrap();
    let clock = service_kit::Clock::system();
    let clients = channel::clients(&accounts, &channel::ClientSettings::default(), &clock).unwrap();
    let stranger = clients.get(pay_types::ChannelCode::Generic, &"main".parse().unwrap()).unwrap();
    // The refusal is signed with the true secret, so the stranger cannot read it either.
    assert_eq!(stranger.create(&order).await.label(), "unknown");
    assert_eq!(world.book().await.totals, channel_simulator::Totals::default());

    // The other account is another world: it does not see the order.
    assert_eq!(world.client.create(&order).await.label(), "accepted");
    let second = clients.get(pay_types::ChannelCode::Generic, &"second".parse().unwrap()).unwrap();
    let Outcome::Accepted(queried) = second.query(&FindOrder::by(&order.pay_no)).await else { panic!() };
    assert!(!queried.known);
}
