//! `docs/calls.txt`: who meets whom, and where. Services share nothing but these borders.
//!
//! Read from manifests and from the text of `src/`: a generated client is a caller, a generated server serves, a
//! producer of `broker` writes, a consumer reads, `sqlx.toml` names the database of a crate's statements.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::proto;
use crate::rust;
use crate::tree::Tree;
use crate::workspace::{Crate, Workspace};

const HEAD: &str = "# Who meets whom. Made by `cargo xtask docs` from manifests and sources, compared by `cargo xtask tidy`.\n";

/// What meets at one border.
#[derive(Debug, Default)]
struct Border<'a> {
    /// Who serves or writes, with the verb for it.
    from: Vec<&'a str>,
    /// Who calls or reads.
    to: Vec<&'a str>,
}

/// The text of the document.
pub(crate) fn text(workspace: &Workspace) -> String {
    let mut text = HEAD.to_owned();
    for (name, border) in grpc(workspace) {
        section(&mut text, &format!("grpc {name}"), [("served by", border.from), ("called by", border.to)]);
    }
    for (name, border) in topics(workspace) {
        section(&mut text, &format!("topic {name}"), [("written by", border.from), ("read by", border.to)]);
    }
    for (name, crates) in databases(workspace) {
        section(&mut text, &format!("database {name}"), [("statements in", crates)]);
    }
    text
}

fn section<'a>(text: &mut String, title: &str, rows: impl IntoIterator<Item = (&'a str, Vec<&'a str>)>) {
    writeln!(text, "\n{title}").expect("a String takes everything");
    for (what, crates) in rows {
        let crates = if crates.is_empty() { "nobody".to_owned() } else { crates.join(", ") };
        writeln!(text, "  {what:<13} {crates}").expect("a String takes everything");
    }
}

fn grpc(workspace: &Workspace) -> BTreeMap<String, Border<'_>> {
    let mut borders = BTreeMap::new();
    for service in proto::read(&workspace.tree).services {
        let (server, client) =
            (format!("{}_server", service.module()), format!("{}_client", service.module()));
        let border = Border {
            from: crates_with(workspace, |_, text| rust::find_word(text, &server).is_some()),
            to: crates_with(workspace, |_, text| rust::find_word(text, &client).is_some()),
        };
        borders.insert(service.full_name(), border);
    }
    borders
}

fn topics(workspace: &Workspace) -> BTreeMap<String, Border<'_>> {
    let topic = contract::event::TOPIC;
    let uses = |of: &Crate, text: &str, word: &str| {
        of.dependencies.iter().any(|dependency| dependency.name == "broker")
            && rust::find_word(text, word).is_some()
    };
    let parks = |text: &str| rust::find_word(text, "DLQ_SUFFIX").is_some();
    let of_facts = Border {
        from: crates_with(workspace, |of, text| uses(of, text, "Producer") && !parks(text)),
        to: crates_with(workspace, |of, text| uses(of, text, "Consumer")),
    };
    let of_parked = Border {
        from: crates_with(workspace, |of, text| uses(of, text, "Producer") && parks(text)),
        to: Vec::new(),
    };
    let parked_topic = format!("{topic}{}", contract::event::DLQ_SUFFIX);
    BTreeMap::from([(topic.to_owned(), of_facts), (parked_topic, of_parked)])
}

fn databases(workspace: &Workspace) -> BTreeMap<String, Vec<&str>> {
    let mut databases = BTreeMap::<String, Vec<&str>>::new();
    for one in &workspace.crates {
        if let Ok(Some(database)) = workspace.database(one) {
            databases.entry(database.name).or_default().push(&one.name);
        }
    }
    databases
}

/// The crates of which the program's own text (not its tests) meets the condition.
fn crates_with(workspace: &Workspace, meets: impl Fn(&Crate, &str) -> bool) -> Vec<&str> {
    workspace
        .crates
        .iter()
        .filter(|one| one.name != env!("CARGO_PKG_NAME") && meets(one, &source(&workspace.tree, one)))
        .map(|one| one.name.as_str())
        .collect()
}

/// All text of a crate's `src/`, without its tests.
fn source(tree: &Tree, of: &Crate) -> String {
    let files = tree.below(&of.dir).filter(|(path, _)| {
        path.strip_prefix(&of.dir).is_some_and(|rest| rest.starts_with("/src/"))
            && path.ends_with(".rs")
            && !rust::is_test(path)
    });
    files.map(|(_, text)| rust::without_tests(text)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_and_readers_are_found_in_their_sources() {
        let workspace = Workspace {
            tree: Tree::of(&[
                ("proto/a.proto", "package a.v1;\nservice OrderApi {\n}"),
                ("crates/api/src/app.rs", "use contract::order::order_api_server::OrderApi;"),
                ("crates/demo/src/main.rs", "use contract::order::order_api_client::OrderApiClient;"),
                ("crates/relay/src/app.rs", "use broker::Producer;\nmod tests {\norder_api_client"),
                ("crates/posting/src/app.rs", "use broker::{Consumer, Producer}; DLQ_SUFFIX"),
                ("crates/posting/sqlx.toml", "[common]\ndatabase-url-var = \"LEDGER_DATABASE_URL\""),
            ]),
            crates: vec![
                Crate::sample("api", &[], &[]),
                Crate::sample("demo", &[], &[]),
                Crate::sample("posting", &["broker"], &[]),
                Crate::sample("relay", &["broker"], &[]),
            ],
            ..Workspace::default()
        };
        let text = text(&workspace);
        assert!(text.contains("grpc a.v1.OrderApi\n  served by     api\n  called by     demo\n"), "{text}");
        assert!(text.contains("topic payment.events.v1\n  written by    relay\n  read by       posting\n"));
        assert!(
            text.contains("topic payment.events.v1.dlq\n  written by    posting\n  read by       nobody\n")
        );
        assert!(text.contains("database ledger\n  statements in posting\n"));
    }
}
