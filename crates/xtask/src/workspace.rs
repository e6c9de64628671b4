//! The workspace as every chore sees it: its root, its files, its crates.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use cargo_metadata::{DependencyKind, MetadataCommand, Package};

use crate::tree::Tree;

#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) tree: Tree,
    pub(crate) crates: Vec<Crate>,
}

/// One crate of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    pub(crate) name: String,
    /// From the root, `crates/…`.
    pub(crate) dir: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// Root files of its targets, in full.
    pub(crate) target_roots: Vec<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Used by tests only.
    pub(crate) dev: bool,
}

impl Workspace {
    /// Reads the workspace that the current folder is in.
    pub(crate) fn read() -> anyhow::Result<Self> {
        // Only what the manifests say: no resolution, so no network and no lock.
        let metadata = MetadataCommand::new()
            .no_deps()
            .other_options(vec!["--offline".to_owned()])
            .exec()
            .context("cargo metadata failed: run this inside the workspace")?;
        let mut crates = metadata
            .workspace_packages()
            .into_iter()
            .map(|package| Crate::of(package, &metadata.workspace_root))
            .collect::<anyhow::Result<Vec<_>>>()?;
        crates.sort_by(|a, b| a.name.cmp(&b.name));
        let root = PathBuf::from(&metadata.workspace_root);
        let tree = Tree::read(&root)?;
        Ok(Self { root, target: metadata.target_directory.into(), tree, crates })
    }

    /// Cargo, in the workspace's root.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root);
        cargo
    }

    /// The variable and the database name of a crate with checked queries, from its `sqlx.toml`.
    pub(crate) fn database(&self, of: &Crate) -> anyhow::Result<Option<Database>> {
        let path = format!("{}/sqlx.toml", of.dir);
        let Some(text) = self.tree.text(&path) else { return Ok(None) };
        let table: toml::Table = text.parse().with_context(|| format!("{path} cannot be read"))?;
        let variable = table
            .get("common")
            .and_then(|common| common.get("database-url-var"))
            .and_then(toml::Value::as_str)
            .with_context(|| format!("{path} names no database-url-var"))?;
        let name = variable
            .strip_suffix("_DATABASE_URL")
            .with_context(|| format!("{path}: {variable} does not end in _DATABASE_URL"))?;
        Ok(Some(Database { variable: variable.to_owned(), name: name.to_lowercase() }))
    }
}

/// A database whose shape is in `migrations/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Database {
    pub(crate) name: String,
    /// The variable in which the checked queries find its address.
    pub(crate) variable: String,
}

impl Crate {
    fn of(package: &Package, root: &cargo_metadata::camino::Utf8Path) -> anyhow::Result<Self> {
        let dir = package
            .manifest_path
            .parent()
            .and_then(|dir| dir.strip_prefix(root).ok())
            .with_context(|| format!("{} lies outside the workspace", package.name))?;
        let dependencies = package
            .dependencies
            .iter()
            .map(|dependency| Dependency {
                name: dependency.name.clone(),
                dev: dependency.kind == DependencyKind::Development,
            })
            .collect();
        Ok(Self {
            name: package.name.to_string(),
            dir: dir.to_string(),
            dependencies,
            target_roots: package.targets.iter().map(|target| target.src_path.clone().into()).collect(),
        })
    }

    #[cfg(test)]
    pub(crate) fn sample(name: &str, dependencies: &[&str], dev: &[&str]) -> Self {
        let all = dependencies.iter().map(|name| (name, false)).chain(dev.iter().map(|name| (name, true)));
        Self {
            name: name.to_owned(),
            dir: format!("crates/{name}"),
            dependencies: all.map(|(name, dev)| Dependency { name: (*name).to_owned(), dev }).collect(),
            target_roots: Vec::new(),
        }
    }
}
