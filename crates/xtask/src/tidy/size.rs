//! Files that can be read in one sitting.

use crate::rust;
use crate::tidy::{Finding, layers};
use crate::workspace::Workspace;

const RULE: &str = "size";

/// Lines of a source file: beyond it nobody reads from top to bottom.
const LINES_MAX: usize = 600;
/// Lines of a file of tests, which are read one by one.
const TEST_LINES_MAX: usize = 800;
/// Lines of a service's `main.rs`: settings, wiring, run. A longer one has become a program.
const MAIN_LINES_MAX: usize = 40;

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mains: Vec<_> = workspace
        .crates
        .iter()
        .filter(|one| layers::layer_is_service(&one.name))
        .map(|one| format!("{}/src/main.rs", one.dir))
        .collect();
    let mut findings = Vec::new();
    for (path, text) in workspace.tree.files().filter(|(path, _)| path.ends_with(".rs")) {
        let (max, remedy) = if mains.iter().any(|main| main == path) {
            (MAIN_LINES_MAX, "move logic to the library")
        } else if rust::is_test(path) {
            (TEST_LINES_MAX, "part it by property group")
        } else {
            (LINES_MAX, "one file, one idea: part it")
        };
        let lines = text.lines().count();
        if lines > max {
            let text = format!("{lines} lines, and {max} is the limit: {remedy}");
            findings.push(Finding::new(RULE, path, max, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};
    use crate::workspace::Crate;

    use super::*;

    #[test]
    fn long_files_are_found() {
        let (main, source, test) = ("\n".repeat(41), "\n".repeat(601), "\n".repeat(801));
        let files = [
            ("crates/a/src/b.rs", source.as_str()),
            ("crates/a/tests/it/fits.rs", source.as_str()),
            ("crates/a/tests/it/long.rs", test.as_str()),
            ("crates/order-api/src/main.rs", main.as_str()),
            ("crates/demo/src/main.rs", main.as_str()),
        ];
        let crates = vec![Crate::sample("order-api", &[], &[]), Crate::sample("demo", &[], &[])];
        assert_eq!(
            told(check(&workspace(&files, crates))),
            [
                "crates/a/src/b.rs:600: size: 601 lines, and 600 is the limit: one file, one idea: part it",
                "crates/a/tests/it/long.rs:800: size: 801 lines, and 800 is the limit: part it by property group",
                "crates/order-api/src/main.rs:40: size: 41 lines, and 40 is the limit: move logic to the library",
            ]
        );
    }
}
