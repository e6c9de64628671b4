//! One page for each reason that an operator can meet, and no page for a reason that is gone.

use contract::reason::Reason;

use crate::tidy::Finding;
use crate::workspace::Workspace;

const RULE: &str = "runbooks";
const FOLDER: &str = "docs/runbooks/";

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for reason in Reason::ALL.iter().map(|reason| reason.as_str()) {
        let path = format!("{FOLDER}{reason}.md");
        let heading = format!("# {reason}");
        match workspace.tree.text(&path) {
            None => {
                let text = "missing: say what happened, what the caller does, what an operator checks";
                findings.push(Finding::new(RULE, &path, 1, text));
            }
            Some(page) if page.lines().next() != Some(heading.as_str()) => {
                findings.push(Finding::new(
                    RULE,
                    &path,
                    1,
                    format!("the first line should be \"{heading}\""),
                ));
            }
            Some(_) => {}
        }
    }
    for (path, _) in workspace.tree.below(FOLDER) {
        let page = path.strip_prefix(FOLDER).and_then(|name| name.strip_suffix(".md")).unwrap_or(path);
        if !Reason::ALL.iter().any(|reason| reason.as_str() == page) {
            let text = "no reason in crates/contract/src/reason.rs has this name: remove the page";
            findings.push(Finding::new(RULE, path, 1, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};

    use super::*;

    #[test]
    fn reasons_and_pages_are_one_to_one() {
        let files = [("docs/runbooks/INTERNAL.md", "# INTERNAL\n"), ("docs/runbooks/GONE.md", "# GONE\n")];
        let told = told(check(&workspace(&files, vec![])));
        assert_eq!(told.len(), Reason::ALL.len());
        assert!(told.iter().any(|text| text.starts_with("docs/runbooks/GONE.md:1: runbooks: no reason")));
        assert!(!told.iter().any(|text| text.contains("INTERNAL.md")));
    }
}
