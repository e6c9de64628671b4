//! Unfinished work has a name and a condition, or it is not written down at all.

use crate::rust;
use crate::tidy::Finding;
use crate::workspace::Workspace;

const RULE: &str = "openings";
const CONDITIONAL: &str = concat!("TO", "DO");
/// The words by which unfinished work is marked, parted so that this file does not find itself.
const MARKS: [&str; 3] = [CONDITIONAL, concat!("FIX", "ME"), CROSSES];
/// Also the code of no currency, so it is a mark only where it opens a comment or is followed by what is open.
const CROSSES: &str = concat!("XX", "X");

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in workspace.tree.files() {
        for (number, line) in rust::lines(text) {
            // A document may speak of the mark, in backticks; a program, in a literal.
            let line = match path.rsplit_once('.') {
                Some((_, "md")) => outside(line, '`'),
                Some((_, "rs")) => outside(line, '"'),
                _ => line.to_owned(),
            };
            if MARKS.iter().any(|mark| is_open(&line, mark)) {
                let text =
                    format!("finish it, or write {CONDITIONAL}(name): what to do when which condition holds");
                findings.push(Finding::new(RULE, path, number, text));
            }
        }
    }
    findings
}

/// Whether a line has the mark without a name and a condition.
fn is_open(line: &str, mark: &str) -> bool {
    let Some(place) = rust::find_word(line, mark) else { return false };
    let after = line.get(place.saturating_add(mark.len())..).unwrap_or_default();
    let named = after
        .strip_prefix('(')
        .and_then(|after| after.split_once("): "))
        .filter(|(name, _)| !name.trim().is_empty());
    let before = line.get(..place).unwrap_or_default().trim_end();
    if mark == CROSSES && !before.ends_with(['/', '-', '#', '*']) && !after.starts_with([':', '(']) {
        return false;
    }
    let conditional = named.is_some_and(|(_, what)| rust::find_word(what, "when").is_some());
    !(mark == CONDITIONAL && conditional)
}

/// What stands outside pairs of a sign.
fn outside(line: &str, sign: char) -> String {
    line.split(sign).step_by(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};

    use super::*;

    #[test]
    fn an_opening_needs_a_name_and_a_condition() {
        let [todo, fixme, crosses] = MARKS;
        let code = format!(
            "// {todo}: later\n// {todo}(li): when a second channel is there, part this\n// {fixme}\n// {todo}(li): soon\n\
             // {crosses} here\n// No currency ({crosses}).\nlet a = \"{crosses}\";\n"
        );
        let document = format!("No `{todo}` here.\n");
        let files = [("crates/a/src/lib.rs", code.as_str()), ("README.md", document.as_str())];
        let told = told(check(&workspace(&files, vec![])));
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].starts_with("crates/a/src/lib.rs:1: openings: finish it"));
    }
}
