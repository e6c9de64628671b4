//! Documents made from code are what the code says now.

use crate::docs;
use crate::rust;
use crate::tidy::Finding;
use crate::workspace::Workspace;

const RULE: &str = "generated";

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let documents = docs::documents(workspace);
    documents.iter().filter_map(|document| old(document, workspace.tree.text(document.path))).collect()
}

fn old(document: &docs::Document, found: Option<&str>) -> Option<Finding> {
    let text = found.unwrap_or_default();
    if text == document.text {
        return None;
    }
    let same = text.lines().zip(document.text.lines()).take_while(|(found, made)| found == made).count();
    let line = rust::lines(&document.text).nth(same).map_or(1, |(line, _)| line);
    Some(Finding::new(RULE, document.path, line, "not what the code says: run `cargo xtask docs`"))
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};

    use super::*;

    #[test]
    fn an_old_document_is_found_at_its_first_old_line() {
        let made = docs::documents(&workspace(&[], vec![]));
        let calls = made.iter().find(|document| document.path == "docs/calls.txt").unwrap();
        let old = calls.text.replace("written by", "read by");
        let files: Vec<_> = made
            .iter()
            .map(|document| {
                (document.path, if document.path == calls.path { &old } else { &document.text }.as_str())
            })
            .collect();
        assert_eq!(
            told(check(&workspace(&files, vec![]))),
            ["docs/calls.txt:4: generated: not what the code says: run `cargo xtask docs`"]
        );
    }
}
