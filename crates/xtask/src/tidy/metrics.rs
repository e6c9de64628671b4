//! A page that sends an operator to a metric names one that exists.

use crate::rust;
use crate::tidy::{Finding, links};
use crate::workspace::Workspace;

const RULE: &str = "metrics";
const PREFIX: &str = "oncepay_";
/// How metrics end; other names with the prefix are databases and the like.
const ENDINGS: [&str; 6] = ["_total", "_seconds", "_records", "_rows", "_ratio", "_bytes"];

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let sources: Vec<_> = workspace
        .tree
        .below("crates/")
        .filter(|(path, _)| path.ends_with(".rs"))
        .map(|(_, text)| text)
        .collect();
    let mut findings = Vec::new();
    for (path, text) in workspace.tree.files().filter(|(path, _)| tells_metrics(path)) {
        for (number, line) in rust::lines(text) {
            for name in names(line) {
                let literal = format!("\"{name}\"");
                if !sources.iter().any(|source| source.contains(&literal)) {
                    findings.push(Finding::new(RULE, path, number, format!("no metric is called {name}")));
                }
            }
        }
    }
    findings
}

/// Documents of the present, alerts and dashboards.
fn tells_metrics(path: &str) -> bool {
    links::is_current(path) || path.starts_with("deploy/")
}

fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| word.starts_with(PREFIX) && ENDINGS.iter().any(|ending| word.ends_with(ending)))
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};

    use super::*;

    #[test]
    fn a_metric_that_is_gone_is_found() {
        let files = [
            ("crates/a/src/lib.rs", "counter!(\"oncepay_calls_total\")"),
            (
                "docs/runbooks/A.md",
                "`oncepay_calls_total{a=\"b\"}` `oncepay_test_payment`\n`oncepay_gone_total`\n",
            ),
        ];
        assert_eq!(
            told(check(&workspace(&files, vec![]))),
            ["docs/runbooks/A.md:2: metrics: no metric is called oncepay_gone_total"]
        );
    }
}
