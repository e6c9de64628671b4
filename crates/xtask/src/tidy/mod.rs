//! The rules that the compiler does not check. Each is a file here, a function over the workspace, and tests with a tiny
//! violation of it.

mod constraints;
mod crates;
mod gates;
mod generated;
mod guards;
mod layers;
mod links;
mod metrics;
mod openings;
mod portable;
mod runbooks;
mod size;
mod sql;
mod statements;

use std::fmt;

use crate::workspace::Workspace;

/// One violation: where, of which rule, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    text: String,
}

impl Finding {
    fn new(rule: &'static str, path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.text)
    }
}

/// Everything that is untidy, by place.
pub(crate) fn findings(workspace: &Workspace) -> Vec<Finding> {
    let rules = [
        layers::check,
        size::check,
        crates::check,
        constraints::check,
        runbooks::check,
        gates::check,
        guards::check,
        openings::check,
        links::check,
        metrics::check,
        statements::check,
        portable::check,
        generated::check,
    ];
    let mut findings: Vec<_> = rules.iter().flat_map(|rule| rule(workspace)).collect();
    findings.sort();
    findings
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::tree::Tree;
    use crate::workspace::{Crate, Workspace};

    use super::*;

    /// A workspace of these files and crates.
    pub(crate) fn workspace(files: &[(&str, &str)], crates: Vec<Crate>) -> Workspace {
        Workspace { tree: Tree::of(files), crates, ..Workspace::default() }
    }

    /// What a rule says, one text for each finding.
    pub(crate) fn told(findings: Vec<Finding>) -> Vec<String> {
        findings.into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn the_tree_is_tidy() {
        let workspace = Workspace::read().expect("the workspace can be read");
        let findings = told(findings(&workspace));
        assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    }
}
