//! Constraint names are vocabulary: the database tells them, code matches them, documents speak of them.

use std::collections::BTreeMap;

use crate::rust;
use crate::tidy::sql::{self, Migration, Name, Named};
use crate::tidy::{Finding, links};
use crate::workspace::Workspace;

const RULE: &str = "constraints";
/// The kinds of names, by how they begin.
pub(super) const PREFIXES: [&str; 6] = ["pk_", "uk_", "fk_", "ck_", "ix_", "tr_"];
const STORE_FILE: &str = "/src/store/constraint.rs";

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let migrations: BTreeMap<&str, Migration> = workspace
        .tree
        .below("migrations/")
        .filter(|(path, _)| path.ends_with(".sql"))
        .map(|(path, text)| (path, sql::read(text)))
        .collect();
    let mut findings = Vec::new();
    for (path, migration) in &migrations {
        findings.extend(migration.names.iter().filter_map(|name| misnamed(path, name)));
        findings.extend(migration.keyless.iter().map(|(table, line)| {
            let text = format!("table {table} has no primary key: name one pk_{table}");
            Finding::new(RULE, path, *line, text)
        }));
        let raised = migration.raised.iter().filter(|(name, _)| !known(&migrations, database_of(path), name));
        findings.extend(raised.map(|(name, line)| {
            let text = format!("{name} is raised, and no trigger or constraint has this name");
            Finding::new(RULE, path, *line, text)
        }));
    }
    for one in &workspace.crates {
        let path = format!("{}{STORE_FILE}", one.dir);
        let database = workspace.database(one).ok().flatten().map(|database| database.name);
        for (line, name) in names_in_code(workspace.tree.text(&path).unwrap_or_default()) {
            if !known(&migrations, database.as_deref(), name) {
                let text = format!("no constraint, index or trigger in migrations/ is called {name}");
                findings.push(Finding::new(RULE, &path, line, text));
            }
        }
    }
    for (path, text) in workspace.tree.files().filter(|(path, _)| links::is_current(path)) {
        for (line, text) in rust::lines(text) {
            let quoted = text.split('`').skip(1).step_by(2);
            for name in quoted.filter(|name| is_name(name) && !known(&migrations, None, name)) {
                let text = format!("no constraint, index or trigger in migrations/ is called {name}");
                findings.push(Finding::new(RULE, path, line, text));
            }
        }
    }
    findings
}

/// Whether a text in backticks is a name by its prefix.
fn is_name(quoted: &str) -> bool {
    let plain =
        |rest: &str| !rest.is_empty() && rest.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    PREFIXES.iter().any(|prefix| quoted.strip_prefix(prefix).is_some_and(plain))
}

/// `payment` of `migrations/payment/0001_payment.sql`.
fn database_of(path: &str) -> Option<&str> {
    path.split('/').nth(1)
}

fn known(migrations: &BTreeMap<&str, Migration>, database: Option<&str>, name: &str) -> bool {
    let of_database = migrations
        .iter()
        .filter(|(path, _)| database.is_none_or(|database| database_of(path) == Some(database)));
    of_database.flat_map(|(_, migration)| &migration.names).any(|known| known.name == name)
}

fn names_in_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    rust::lines(text).flat_map(|(number, line)| rust::literals(line).map(move |name| (number, name)))
}

fn misnamed(path: &str, name: &Name) -> Option<Finding> {
    let (what, prefixes): (_, &[&str]) = match name.named {
        // A key that is a gate may carry the gate's name.
        Named::PrimaryKey => ("primary key", &["pk_", "uk_"]),
        Named::Unique => ("unique constraint", &["uk_"]),
        Named::UniqueIndex => ("unique index", &["uk_"]),
        Named::ForeignKey => ("foreign key", &["fk_"]),
        Named::Check => ("check", &["ck_"]),
        Named::Index => ("index", &["ix_"]),
        Named::Trigger => ("trigger", &["tr_"]),
    };
    if prefixes.iter().any(|prefix| name.name.starts_with(prefix)) {
        return None;
    }
    let text = if name.name.is_empty() {
        format!("a {what} without a name: give it one that begins with {}", prefixes.join(" or "))
    } else {
        format!("{what} {} should begin with {}", name.name, prefixes.join(" or "))
    };
    Some(Finding::new(RULE, path, name.line, text))
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};
    use crate::workspace::Crate;

    use super::*;

    #[test]
    fn nameless_and_misnamed_constraints_are_found() {
        let sql = "CREATE TABLE a (id INT PRIMARY KEY, CONSTRAINT amount CHECK (id > 0));\nCREATE TABLE b (id INT);";
        assert_eq!(
            told(check(&workspace(&[("migrations/payment/0001.sql", sql)], vec![]))),
            [
                "migrations/payment/0001.sql:1: constraints: a primary key without a name: give it one that begins with \
                 pk_ or uk_",
                "migrations/payment/0001.sql:1: constraints: check amount should begin with ck_",
                "migrations/payment/0001.sql:2: constraints: table b has no primary key: name one pk_b",
            ]
        );
    }

    #[test]
    fn code_matches_only_names_of_its_own_database() {
        let files = [
            ("migrations/payment/1.sql", "CREATE INDEX ix_payment ON a (b);"),
            ("migrations/ledger/1.sql", "CREATE INDEX ix_ledger ON a (b);"),
            ("crates/a/sqlx.toml", "[common]\ndatabase-url-var = \"PAYMENT_DATABASE_URL\""),
            ("crates/a/src/store/constraint.rs", "// \"ix_no\"\nA: \"ix_payment\";\nB: \"ix_ledger\";\n"),
        ];
        assert_eq!(
            told(check(&workspace(&files, vec![Crate::sample("a", &[], &[])]))),
            [
                "crates/a/src/store/constraint.rs:3: constraints: no constraint, index or trigger in migrations/ is called \
              ix_ledger"
            ]
        );
    }

    #[test]
    fn documents_speak_of_names_that_exist() {
        let files = [
            ("migrations/payment/1.sql", "CREATE INDEX ix_payment ON a (b);"),
            ("docs/GATES.md", "`ix_payment` `ix_` `ix_gone`"),
        ];
        assert_eq!(
            told(check(&workspace(&files, vec![]))),
            [
                "docs/GATES.md:1: constraints: no constraint, index or trigger in migrations/ is called ix_gone"
            ]
        );
    }

    #[test]
    fn a_function_raises_only_names_that_exist() {
        let sql = "CREATE FUNCTION f() AS $$ RAISE 'x' USING CONSTRAINT = 'tr_gone'; $$;";
        assert_eq!(check(&workspace(&[("migrations/payment/1.sql", sql)], vec![])).len(), 1);
    }
}
