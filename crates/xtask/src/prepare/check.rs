//! The run of cargo that expands the macros, with a database at hand and a folder for each crate.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};

use crate::workspace::{Crate, Workspace};

/// Longer than a build takes for which cargo makes us wait.
const AHEAD: Duration = Duration::from_secs(20 * 60);

/// Stands before rustc, in `RUSTC_WRAPPER`: cargo does not count that variable as a change of the compiler, so nothing is
/// built twice for it. A crate that has no folder is compiled as always.
const WRAPPER: &str = r#"#!/bin/sh
folder=$ONCEPAY_PREPARED/${CARGO_PKG_NAME:-none}
if [ -d "$folder" ]; then
  export SQLX_OFFLINE_DIR="$folder"
fi
exec "$@"
"#;

/// Where the run collects a crate's query data.
pub(super) fn collected(workspace: &Workspace, of: &Crate) -> PathBuf {
    folder(workspace).join(&of.name)
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("sqlx-prepare")
}

/// Checks the workspace, all targets, so that every macro of these crates is expanded against its database.
pub(super) fn expand(
    workspace: &Workspace,
    crates: &[&Crate],
    addresses: &[(&str, String)],
) -> anyhow::Result<()> {
    let folder = folder(workspace);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    for one in crates {
        fs::create_dir_all(collected(workspace, one))?;
    }
    let wrapper = folder.join("rustc.sh");
    let mut file = File::options().write(true).create_new(true).mode(0o755).open(&wrapper)?;
    file.write_all(WRAPPER.as_bytes())?;
    drop(file);

    let touched = Touched::now(crates.iter().flat_map(|one| &one.target_roots))?;
    let mut cargo = workspace.cargo();
    cargo
        .args(["check", "--workspace", "--all-targets"])
        .env("RUSTC_WRAPPER", &wrapper)
        .env("ONCEPAY_PREPARED", &folder)
        .env("SQLX_OFFLINE", "false")
        // The address for crates without a `sqlx.toml`: their statements belong to no database that we know.
        .env_remove("DATABASE_URL")
        .envs(addresses.iter().map(|(variable, address)| (variable, address)));
    let status = cargo.status().context("cargo cannot be run")?;
    touched.restore()?;
    ensure!(status.success(), "cargo check failed with the databases at hand: see above");
    Ok(())
}

/// Files that were made to look changed, because cargo expands macros only where something changed. Afterwards they get
/// their times back, or every later build would compile these crates again.
struct Touched(Vec<(PathBuf, SystemTime, SystemTime)>);

impl Touched {
    fn now<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> anyhow::Result<Self> {
        let mut touched = Vec::new();
        for path in paths {
            let before = modified(path)?;
            let file = File::options().append(true).open(path)?;
            file.set_modified(seen_as_changed()?)?;
            touched.push((path.clone(), before, modified(path)?));
        }
        Ok(Self(touched))
    }

    fn restore(self) -> anyhow::Result<()> {
        for (path, before, then) in self.0 {
            // Someone may have saved the file meanwhile: that change is to be seen.
            if modified(&path)? == then {
                File::options().append(true).open(&path)?.set_modified(before)?;
            }
        }
        Ok(())
    }
}

fn modified(path: &Path) -> anyhow::Result<SystemTime> {
    let read = fs::metadata(path).and_then(|metadata| metadata.modified());
    read.with_context(|| format!("cannot look at {}", path.display()))
}

/// A time ahead of us: another build that runs just now must not make the crate look built again.
#[expect(clippy::disallowed_methods, reason = "cargo compares file times with the machine's clock")]
fn seen_as_changed() -> anyhow::Result<SystemTime> {
    SystemTime::now().checked_add(AHEAD).context("the clock is at its end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_files_get_their_times_back_unless_they_changed() {
        let folder = std::env::temp_dir().join(format!("oncepay-touched-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (kept, changed) = (folder.join("kept.rs"), folder.join("changed.rs"));
        let long_ago = SystemTime::UNIX_EPOCH;
        for path in [&kept, &changed] {
            File::create(path).unwrap().set_modified(long_ago).unwrap();
        }
        let touched = Touched::now([kept.clone(), changed.clone()].iter()).unwrap();
        let newer = modified(&changed).unwrap() + Duration::from_secs(1);
        File::options().append(true).open(&changed).unwrap().set_modified(newer).unwrap();
        assert!(modified(&kept).unwrap() > long_ago);
        touched.restore().unwrap();
        assert_eq!(modified(&kept).unwrap(), long_ago);
        assert_eq!(modified(&changed).unwrap(), newer);
        fs::remove_dir_all(folder).unwrap();
    }
}
