//! Documents name no path that is missing.

use crate::rust;
use crate::tidy::Finding;
use crate::tree::Tree;
use crate::workspace::Workspace;

const RULE: &str = "links";
/// Endings by which a text in backticks is a file of ours rather than an address or a media type.
const ENDINGS: [&str; 8] = [".rs", ".toml", ".sql", ".md", ".sh", ".proto", ".yml", ".txt"];
/// Folders inside a crate that its README names without the crate's own path.
const CRATE_FOLDERS: [&str; 3] = ["src/", "tests/", "benches/"];

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let tree = &workspace.tree;
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| is_current(path)) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in rust::lines(text) {
            let linked = links(line).filter(|link| !tree.has(&joined(folder, link)));
            let quoted = line.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
            let quoted = quoted.filter(|word| is_path(tree, word) && !exists(tree, folder, word));
            for missing in linked.chain(quoted) {
                let text = format!("{missing} is not there: name what took its place");
                findings.push(Finding::new(RULE, path, number, text));
            }
        }
    }
    findings
}

/// Documents that speak of the present: not decisions, nor the list of changes.
pub(super) fn is_current(path: &str) -> bool {
    path.ends_with(".md") && !path.starts_with("docs/adr/") && path != "CHANGELOG.md"
}

/// Targets of markdown links to files, without their anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|after| {
        let target = after.split([')', '#', ' ']).next()?;
        (!target.is_empty() && !target.contains("://") && !target.starts_with("mailto:")).then_some(target)
    })
}

/// Whether a word looks like a path in this repository. Patterns (`*`, `<…>`, `{…}`, `…`) are none.
fn is_path(tree: &Tree, word: &str) -> bool {
    let Some((first, _)) = word.split_once('/') else { return false };
    let plain = word.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
    let ours = ENDINGS.iter().any(|ending| word.ends_with(ending))
        || CRATE_FOLDERS.iter().any(|folder| word.starts_with(folder))
        || tree.has(first);
    plain && ours && !first.is_empty() && !is_made(first)
}

/// What a build or a run makes.
fn is_made(first: &str) -> bool {
    matches!(first, "target" | ".local" | ".sqlx")
}

/// From the root, from the document, or as the end of some path: `store/constraint.rs` is what several crates have.
fn exists(tree: &Tree, folder: &str, word: &str) -> bool {
    let (file, within) = (format!("/{word}"), format!("/{}/", word.trim_end_matches('/')));
    tree.has(word)
        || tree.has(&joined(folder, word))
        || tree.files().any(|(path, _)| path.ends_with(&file) || path.contains(&within))
}

/// A path seen from a folder, with `.` and `..` resolved.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};

    use super::*;

    #[test]
    fn missing_paths_are_found_and_other_words_are_not() {
        let readme = "`src/there.rs` `there.rs` `store/there.rs` `crates/a/src/` `application/json` `/healthz` `crates/*/x.rs`\n\
                      [good](src/there.rs#L1) [web](https://x.y/z.md) [bad](../b/README.md) `make up` `.local/env`\n\
                      `src/gone.rs` `deploy/gone.sh test` `target/debug/x`\n";
        let files = [
            ("crates/a/README.md", readme),
            ("crates/a/src/there.rs", ""),
            ("crates/a/src/store/there.rs", ""),
            ("docs/adr/0001.md", "`crates/gone.rs`"),
        ];
        assert_eq!(
            told(check(&workspace(&files, vec![]))),
            [
                "crates/a/README.md:2: links: ../b/README.md is not there: name what took its place",
                "crates/a/README.md:3: links: src/gone.rs is not there: name what took its place",
                "crates/a/README.md:3: links: deploy/gone.sh is not there: name what took its place",
            ]
        );
    }
}
