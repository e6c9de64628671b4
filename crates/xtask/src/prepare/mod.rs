//! `.sqlx/` of each crate with checked queries: what the database says about them, so that a build needs no database.
//!
//! The macros of sqlx save what the database tells them into `SQLX_OFFLINE_DIR` whenever they are expanded with a
//! database at hand. So: make the databases from `migrations/`, let cargo expand everything once, and collect.
//! One run of cargo over the whole workspace, because another selection of crates would unite features anew and check
//! all dependencies again; a wrapper around rustc gives each crate its own folder.

mod check;
mod data;
mod scratch;

use std::collections::BTreeSet;

use anyhow::Context as _;

use crate::prepare::data::Difference;
use crate::prepare::scratch::Scratch;
use crate::workspace::{Crate, Database, Workspace};

/// Writes all `.sqlx/` anew, or with `check` only compares. Tells the differences.
pub(crate) fn run(workspace: &Workspace, server: &str, check: bool) -> anyhow::Result<Vec<Difference>> {
    let mut crates = Vec::new();
    for one in &workspace.crates {
        if let Some(database) = workspace.database(one)? {
            crates.push((one, database));
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(with_databases(workspace, server, &crates))?;
    let mut differences = Vec::new();
    for (one, _) in &crates {
        let made = check::collected(workspace, one);
        let kept = workspace.root.join(&one.dir).join(".sqlx");
        differences.extend(data::differences(&one.dir, &kept, &made)?);
        if !check {
            data::replace(&kept, &made).with_context(|| format!("cannot renew {}", kept.display()))?;
        }
    }
    Ok(differences)
}

async fn with_databases(
    workspace: &Workspace,
    server: &str,
    crates: &[(&Crate, Database)],
) -> anyhow::Result<()> {
    let databases: BTreeSet<_> = crates.iter().map(|(_, database)| database.clone()).collect();
    let mut scratch = Scratch::begin(server).await?;
    let expanded = async {
        let mut addresses = Vec::new();
        for database in &databases {
            let migrations = workspace.root.join("migrations").join(&database.name);
            let address = scratch.make(&database.name, &migrations).await?;
            addresses.push((database.variable.as_str(), address));
        }
        let crates: Vec<_> = crates.iter().map(|(one, _)| *one).collect();
        check::expand(workspace, &crates, &addresses)
    }
    .await;
    // Also after a failure, and its reason is the one to tell.
    let ended = scratch.end().await;
    expanded.and(ended)
}
