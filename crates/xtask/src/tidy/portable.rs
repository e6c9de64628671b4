//! What runs on one machine runs on all: no test is left out, no path is somebody's own.

use crate::rust;
use crate::tidy::Finding;
use crate::workspace::Workspace;

const RULE: &str = "portable";
/// Parted, so that this file does not find itself.
const IGNORED: &str = concat!("#[", "ignore");
const FOLDERS: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in workspace.tree.files() {
        for (number, line) in rust::lines(text) {
            if path.ends_with(".rs") && rust::without_comment(line).contains(IGNORED) {
                let text = "a test that does not run proves nothing: mend it or remove it";
                findings.push(Finding::new(RULE, path, number, text));
            }
            if let Some(folder) = FOLDERS.iter().find(|folder| begins_a_path(line, folder)) {
                let text = format!("{folder}… is a path of one machine: name it from the repository's root");
                findings.push(Finding::new(RULE, path, number, text));
            }
        }
    }
    findings
}

/// Whether the folder stands at the beginning of a path, not inside one such as `a/home/b` or an address.
fn begins_a_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(place, _)| {
        let before = line.get(..place).and_then(|text| text.chars().next_back());
        before.is_none_or(|letter| !letter.is_alphanumeric() && !"._-/}".contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};

    use super::*;

    #[test]
    fn ignored_tests_and_paths_of_one_machine_are_found() {
        let [home, ..] = FOLDERS;
        let code = format!("{IGNORED}]\nlet a = \"{home}me\";\nlet b = \"https://x.y{home}z\";\n");
        assert_eq!(
            told(check(&workspace(&[("crates/a/src/lib.rs", &code)], vec![]))),
            [
                "crates/a/src/lib.rs:1: portable: a test that does not run proves nothing: mend it or remove it"
                    .to_owned(),
                format!("crates/a/src/lib.rs:2: portable: {home}… is a path of one machine: name it from the repository's root"),
            ]
        );
    }
}
