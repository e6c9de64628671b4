//! The files of the repository: what is tracked or would be, never what a build or a run left behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

/// Folders that hold no file of ours, for a tree without git.
const NOT_OURS: [&str; 3] = [".git", ".local", "target"];

/// Paths from the root, with `/`, and their text; a file that is not text has none.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the repository at `root`.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut files = BTreeMap::new();
        let paths = listed_by_git(root).map_or_else(|| walked(root), Ok)?;
        for path in paths {
            let full = root.join(&path);
            // Listed, but deleted and not yet committed.
            if !full.is_file() {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
            files.insert(path, String::from_utf8(bytes).unwrap_or_default());
        }
        Ok(Self { files })
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect() }
    }

    /// All files by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files below a folder, given with its last `/`.
    pub(crate) fn below(&self, folder: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(move |(path, _)| path.starts_with(folder))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a file or a folder has this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
    }
}

/// `None` where there is no git, or no repository that it would read.
fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let told = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|told| told.status.success())?;
    let text = String::from_utf8(told.stdout).ok()?;
    let paths: Vec<_> = text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    (!paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
        {
            let entry = entry?;
            let name = entry.file_name();
            if NOT_OURS.iter().any(|not_ours| name == *not_ours) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if let Some(path) = entry.path().strip_prefix(root)?.to_str() {
                paths.push(path.to_owned());
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_when_a_file_is_in_it() {
        let tree = Tree::of(&[("a/b/c.rs", ""), ("a/bc.rs", "")]);
        assert!(tree.has("a/b") && tree.has("a/b/") && tree.has("a/b/c.rs"));
        assert!(!tree.has("a/b/c") && !tree.has("a/x"));
    }
}
