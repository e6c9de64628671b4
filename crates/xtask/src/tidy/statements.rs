//! Checked SQL stands in stores only: a use case decides, a store speaks SQL.

use crate::rust;
use crate::tidy::Finding;
use crate::workspace::Workspace;

const RULE: &str = "statements";
const MACROS: [&str; 4] = ["query!", "query_as!", "query_scalar!", "query_file!"];

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in workspace.tree.below("crates/") {
        if !path.ends_with(".rs") || may_speak_sql(path) {
            continue;
        }
        for (number, line) in rust::lines(rust::without_tests(text)) {
            let line = rust::without_comment(line);
            if MACROS.iter().any(|name| calls(line, name)) {
                findings.push(Finding::new(RULE, path, number, "move the statement to this crate's store"));
            }
        }
    }
    findings
}

fn may_speak_sql(path: &str) -> bool {
    rust::is_test(path)
        || path.contains("/store/")
        || path.ends_with("/store.rs")
        || path == "crates/idempotency/src/log.rs"
        || path.starts_with("crates/audit/")
        || path.starts_with("crates/test-kit/")
}

/// `query!(` or `sqlx::query!(`, not `my_query!(` nor the word in a literal.
fn calls(line: &str, name: &str) -> bool {
    let outside_literals = line.split('"').step_by(2);
    outside_literals.into_iter().any(|text| {
        text.match_indices(&format!("{name}(")).any(|(place, _)| {
            let before = text.get(..place).and_then(|text| text.chars().next_back());
            before.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_')
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};

    use super::*;

    #[test]
    fn a_statement_outside_a_store_is_found() {
        let statement = format!("let a = sqlx::{}(\"SELECT 1\");\n", "query_as!");
        let in_test = format!("fn a() {{}}\nmod tests {{\n{statement}");
        let files = [
            ("crates/a/src/create.rs", statement.as_str()),
            ("crates/a/src/store/payment.rs", statement.as_str()),
            ("crates/a/src/tested.rs", in_test.as_str()),
            ("crates/a/tests/it/main.rs", statement.as_str()),
        ];
        assert_eq!(
            told(check(&workspace(&files, vec![]))),
            ["crates/a/src/create.rs:1: statements: move the statement to this crate's store"]
        );
    }
}
