//! Comparing and replacing folders of query data.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// A file of query data that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// A query that is not described yet.
    Missing(String),
    /// The description of a query that is gone.
    Stale(String),
    /// The database says something else about a query now.
    Changed(String),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(f, "{path}: new query"),
            Self::Stale(path) => write!(f, "{path}: no such query any more"),
            Self::Changed(path) => write!(f, "{path}: described differently"),
        }
    }
}

/// What differs in `kept` from `made`; `dir` is the crate's path for people.
pub(super) fn differences(dir: &str, kept: &Path, made: &Path) -> anyhow::Result<Vec<Difference>> {
    let (kept, made) = (files(kept)?, files(made)?);
    let path = |name: &String| format!("{dir}/.sqlx/{name}");
    let new = made.iter().filter_map(|(name, text)| match kept.get(name) {
        None => Some(Difference::Missing(path(name))),
        Some(other) => (other != text).then(|| Difference::Changed(path(name))),
    });
    let stale =
        kept.keys().filter(|name| !made.contains_key(*name)).map(|name| Difference::Stale(path(name)));
    Ok(new.chain(stale).collect())
}

/// Puts what was made in the place of what was kept. A crate without queries keeps no folder.
pub(super) fn replace(kept: &Path, made: &Path) -> anyhow::Result<()> {
    let made = files(made)?;
    if kept.exists() {
        fs::remove_dir_all(kept)?;
    }
    if made.is_empty() {
        return Ok(());
    }
    fs::create_dir(kept)?;
    for (name, text) in made {
        fs::write(kept.join(name), text)?;
    }
    Ok(())
}

/// Names and bytes; nothing where there is no folder.
fn files(folder: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    if !folder.exists() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.insert(name, fs::read(&path)?);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_told_and_replaced() {
        let folder = std::env::temp_dir().join(format!("oncepay-data-{}", std::process::id()));
        let (kept, made) = (folder.join("kept"), folder.join("made"));
        for (path, text) in [
            ("kept/a", "1"),
            ("kept/b", "1"),
            ("kept/c", "1"),
            ("made/b", "2"),
            ("made/c", "1"),
            ("made/d", "1"),
        ] {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(
            differences("crates/x", &kept, &made).unwrap(),
            [
                Difference::Changed("crates/x/.sqlx/b".to_owned()),
                Difference::Missing("crates/x/.sqlx/d".to_owned()),
                Difference::Stale("crates/x/.sqlx/a".to_owned()),
            ]
        );
        replace(&kept, &made).unwrap();
        assert_eq!(differences("crates/x", &kept, &made).unwrap(), []);
        replace(&kept, &folder.join("none")).unwrap();
        assert!(!kept.exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
