//! What every crate has: the workspace's lints, and a README that is its documentation.

use crate::tidy::Finding;
use crate::workspace::Workspace;

const RULE: &str = "crates";
const README_AS_DOCS: &str = r#"#![doc = include_str!("../README.md")]"#;

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for one in &workspace.crates {
        let mut find = |file: &str, text: String| {
            findings.push(Finding::new(RULE, &format!("{}/{file}", one.dir), 1, text));
        };
        let text = |file: &str| workspace.tree.text(&format!("{}/{file}", one.dir));
        if !opts_into_lints(text("Cargo.toml").unwrap_or_default()) {
            find("Cargo.toml", "the workspace's lints are missing: add [lints] workspace = true".to_owned());
        }
        let heading = format!("# {}", one.name);
        match text("README.md") {
            None => find("README.md", "missing: say what the crate is, guarantees and cannot do".to_owned()),
            Some(readme) if readme.lines().next() != Some(heading.as_str()) => {
                find("README.md", format!("the first line should be \"{heading}\""));
            }
            Some(_) => {}
        }
        if text("src/lib.rs").is_some_and(|lib| !lib.contains(README_AS_DOCS)) {
            find("src/lib.rs", format!("the README should be its documentation: {README_AS_DOCS}"));
        }
    }
    findings
}

fn opts_into_lints(manifest: &str) -> bool {
    let Ok(table) = manifest.parse::<toml::Table>() else { return false };
    table.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};
    use crate::workspace::Crate;

    use super::*;

    #[test]
    fn a_bare_crate_is_found() {
        let files = [
            ("crates/a/Cargo.toml", "[package]"),
            ("crates/a/README.md", "# b"),
            ("crates/a/src/lib.rs", ""),
        ];
        let told = told(check(&workspace(&files, vec![Crate::sample("a", &[], &[])])));
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[1].contains("the first line should be \"# a\""));
    }

    #[test]
    fn a_proper_crate_passes() {
        let files = [
            ("crates/a/Cargo.toml", "[package]\n[lints]\nworkspace = true"),
            ("crates/a/README.md", "# a\n"),
            ("crates/a/src/lib.rs", README_AS_DOCS),
        ];
        assert_eq!(check(&workspace(&files, vec![Crate::sample("a", &[], &[])])), []);
    }
}
