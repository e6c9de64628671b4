//! Who may depend on whom. Services meet through `contract` or a topic, never by import.

use crate::rust;
use crate::tidy::Finding;
use crate::workspace::Workspace;

const RULE: &str = "layers";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// Pure values and the wire.
    Types,
    /// The plumbing that every service is built with.
    Kit,
    /// One concern each, knowing nothing of one another.
    Tool,
    Service,
    /// Programs over everything.
    Top,
    /// Tests of everything, their common parts in a library.
    Tests,
    /// For tests of all layers.
    TestKit,
}

/// Lowest first.
const LAYERS: [(&str, Layer); 23] = [
    ("pay-types", Layer::Types),
    ("contract", Layer::Types),
    ("service-kit", Layer::Kit),
    ("broker", Layer::Tool),
    ("idempotency", Layer::Tool),
    ("channel", Layer::Tool),
    ("ledger", Layer::Tool),
    ("audit", Layer::Tool),
    ("order-api", Layer::Service),
    ("payment-core", Layer::Service),
    ("callback-receiver", Layer::Service),
    ("outbox-relay", Layer::Service),
    ("ledger-consumer", Layer::Service),
    ("ledger-service", Layer::Service),
    ("reconciler", Layer::Service),
    ("payctl", Layer::Top),
    ("channel-simulator", Layer::Top),
    ("oncepay", Layer::Top),
    ("demo", Layer::Top),
    ("bench", Layer::Top),
    ("e2e", Layer::Tests),
    ("xtask", Layer::Top),
    ("test-kit", Layer::TestKit),
];

/// Only these speak Kafka's protocol; everyone else asks `broker`.
const KAFKA_SPEAKERS: [&str; 2] = ["broker", "test-kit"];

pub(crate) fn layer_is_service(name: &str) -> bool {
    layer(name) == Some(Layer::Service)
}

fn layer(name: &str) -> Option<Layer> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for one in &workspace.crates {
        let manifest = format!("{}/Cargo.toml", one.dir);
        let Some(from) = layer(&one.name) else {
            let text = format!("{} has no layer: give it one in crates/xtask/src/tidy/layers.rs", one.name);
            findings.push(Finding::new(RULE, &manifest, 1, text));
            continue;
        };
        let line = |name: &str| {
            let text = workspace.tree.text(&manifest).unwrap_or_default();
            let is_it =
                |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']));
            rust::lines(text).find(|(_, line)| is_it(line)).map_or(1, |(number, _)| number)
        };
        for dependency in &one.dependencies {
            let name = dependency.name.as_str();
            if name.starts_with("rdkafka") && !KAFKA_SPEAKERS.contains(&one.name.as_str()) {
                let text = format!("{} may not use {name}: Kafka is spoken through broker", one.name);
                findings.push(Finding::new(RULE, &manifest, line(name), text));
            }
            let Some(to) = layer(name) else { continue };
            if let Some(why) = refusal(from, (&one.name, name), to, dependency.dev) {
                let text = format!("{} may not use {name}: {why}", one.name);
                findings.push(Finding::new(RULE, &manifest, line(name), text));
            }
        }
    }
    findings
}

/// Why a crate may not use another; `None`: it may. Tests keep to the layers too, and may use the test kit besides.
fn refusal(from: Layer, names: (&str, &str), to: Layer, dev: bool) -> Option<&'static str> {
    let allowed = match (from, to) {
        (_, Layer::TestKit) => {
            return (!dev && from != Layer::Tests).then_some("the test kit is for [dev-dependencies] only");
        }
        (Layer::Types, Layer::Types) => names == ("contract", "pay-types"),
        (Layer::Types, _) => false,
        (Layer::Kit, to) => to == Layer::Types,
        (Layer::Tool, to) => matches!(to, Layer::Types | Layer::Kit),
        (Layer::Service | Layer::TestKit, to) => matches!(to, Layer::Types | Layer::Kit | Layer::Tool),
        (Layer::Top, to) => to != Layer::Tests,
        (Layer::Tests, _) => true,
    };
    if allowed {
        return None;
    }
    Some(match (from, to) {
        (Layer::Service, Layer::Service) => "services meet through contract or a topic, never by import",
        (Layer::Tool, Layer::Tool) => "crates of this layer do not know one another",
        _ => "it stands above it, or beside it",
    })
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};
    use crate::workspace::Crate;

    use super::*;

    fn of(one: Crate) -> Vec<String> {
        let manifest = "[package]\n[dependencies]\nanyhow.workspace = true\npayment-core.workspace = true\n";
        told(check(&workspace(&[("crates/order-api/Cargo.toml", manifest)], vec![one])))
    }

    #[test]
    fn a_service_never_imports_a_service() {
        assert_eq!(
            of(Crate::sample("order-api", &["contract", "idempotency", "payment-core"], &["test-kit"])),
            [
                "crates/order-api/Cargo.toml:4: layers: order-api may not use payment-core: services meet through \
              contract or a topic, never by import"
            ]
        );
        assert_eq!(of(Crate::sample("order-api", &[], &["payment-core"])).len(), 1);
    }

    #[test]
    fn lower_layers_know_nothing_of_higher_ones() {
        assert_eq!(of(Crate::sample("pay-types", &["contract"], &[])).len(), 1);
        assert_eq!(of(Crate::sample("service-kit", &["idempotency"], &[])).len(), 1);
        assert_eq!(of(Crate::sample("ledger", &["idempotency"], &[])).len(), 1);
        assert_eq!(of(Crate::sample("ledger-service", &["channel-simulator"], &[])).len(), 1);
        assert_eq!(of(Crate::sample("contract", &["pay-types"], &[])).len(), 0);
        assert_eq!(of(Crate::sample("ledger", &["pay-types", "service-kit"], &["test-kit"])).len(), 0);
        assert_eq!(of(Crate::sample("oncepay", &["channel-simulator", "order-api"], &[])).len(), 0);
    }

    #[test]
    fn the_test_kit_is_for_tests() {
        assert_eq!(of(Crate::sample("demo", &["test-kit"], &[])).len(), 1);
        assert_eq!(of(Crate::sample("demo", &["e2e"], &[])).len(), 1);
        assert_eq!(of(Crate::sample("e2e", &["test-kit", "demo"], &[])).len(), 0);
    }

    #[test]
    fn only_the_broker_speaks_kafka() {
        assert_eq!(of(Crate::sample("outbox-relay", &["rdkafka"], &[])).len(), 1);
        assert_eq!(of(Crate::sample("broker", &["rdkafka", "rdkafka-sys"], &[])).len(), 0);
    }

    #[test]
    fn a_new_crate_needs_a_layer() {
        assert_eq!(of(Crate::sample("newcomer", &[], &[])).len(), 1);
    }
}
