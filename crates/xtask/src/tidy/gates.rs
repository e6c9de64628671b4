//! `docs/GATES.md` is the project's proof: it names every gate, and tests that exist.

use std::collections::BTreeSet;

use pay_types::Gate;

use crate::rust;
use crate::tidy::{Finding, constraints};
use crate::tree::Tree;
use crate::workspace::Workspace;

const RULE: &str = "gates";
const PATH: &str = "docs/GATES.md";
/// A bare name in backticks with this many words is a test's: tests are named by sentences, other things are not.
const TEST_WORDS_MIN: usize = 4;
/// How metrics begin, which are sentences no more than constraints are.
const METRIC: &str = "oncepay_";

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let Some(text) = workspace.tree.text(PATH) else {
        return vec![Finding::new(RULE, PATH, 1, "missing: tell each gate's hole, place and test")];
    };
    let mut findings = Vec::new();
    for gate in Gate::ALL.iter().filter(|gate| rust::find_word(text, gate.as_str()).is_none()) {
        findings.push(Finding::new(RULE, PATH, 1, format!("gate {gate} is not named")));
    }
    let functions = functions(&workspace.tree);
    for (line, text) in rust::lines(text) {
        for name in text.split('`').skip(1).step_by(2).filter_map(test_name) {
            if !functions.contains(name) {
                let text = format!("there is no fn {name}: name the test that fails without the gate");
                findings.push(Finding::new(RULE, PATH, line, text));
            }
        }
    }
    findings
}

/// The function's name, if a text in backticks names a test: `crate::file::a_name` or `a_name_like_a_sentence`.
fn test_name(quoted: &str) -> Option<&str> {
    let (is_path, name) = quoted.rsplit_once("::").map_or((false, quoted), |(_, name)| (true, name));
    let plain =
        name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
    let is_sentence = name.split('_').count() >= TEST_WORDS_MIN;
    let is_other =
        name.starts_with(METRIC) || constraints::PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    (plain && !name.is_empty() && (is_path || is_sentence && !is_other)).then_some(name)
}

fn functions(tree: &Tree) -> BTreeSet<&str> {
    let sources = tree.files().filter(|(path, _)| path.ends_with(".rs"));
    sources
        .flat_map(|(_, text)| text.split("fn ").skip(1))
        .filter_map(|after| after.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next())
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};

    use super::*;

    #[test]
    fn gates_and_tests_that_are_not_there_are_found() {
        let gates = "G1 G2 G3 G4 G5 G6 G7 G8 G10 `uk_order_live` `oncepay_gate_closed_total` `begin.rs`\n\
                     `e2e::storm::paid_once` `a_key_is_used_once` `a_test_that_is_gone` `e2e::storm::gone`";
        let files = [
            ("docs/GATES.md", gates),
            ("crates/e2e/tests/it/storm.rs", "async fn paid_once() {}\nfn a_key_is_used_once() {}"),
        ];
        assert_eq!(
            told(check(&workspace(&files, vec![]))),
            [
                "docs/GATES.md:1: gates: gate G9 is not named",
                "docs/GATES.md:2: gates: there is no fn a_test_that_is_gone: name the test that fails without the gate",
                "docs/GATES.md:2: gates: there is no fn gone: name the test that fails without the gate",
            ]
        );
    }

    #[test]
    fn without_the_document_there_is_one_finding() {
        assert_eq!(check(&workspace(&[], vec![])).len(), 1);
    }
}
