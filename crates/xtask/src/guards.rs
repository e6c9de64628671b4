//! Guards taken away one at a time: the test that says it guards one must then fail.
//!
//! `guards.toml` lists them: a text in a file, what stands in its place without the guard, and the test that must notice.
//! Each change is made in the working tree, built, tested and taken back, whatever happens in between. Tidy keeps the list
//! true without building (`tidy/guards.rs`).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{fmt, io};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::workspace::Workspace;

/// The list, from the root.
pub(crate) const PATH: &str = "crates/xtask/guards.toml";
/// Longest build of one change; from nothing, on two busy cores, it takes about ten minutes.
const BUILD_MAX: Duration = Duration::from_secs(1_200);
/// Longest run of one test: ten times the slowest. A test that waits for ever without its guard has failed.
const TEST_MAX: Duration = Duration::from_secs(300);

/// One guard, and the test that must fail without it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Guard {
    /// What guards, in a few words.
    pub(crate) name: String,
    pub(crate) file: String,
    /// Stands once in the file.
    pub(crate) find: String,
    /// The same without the guard.
    pub(crate) replace: String,
    /// Arguments of `cargo test` that select the test's program.
    pub(crate) test: String,
    /// The test, as its program lists it.
    pub(crate) fails: String,
    /// Crates whose programs the test starts.
    #[serde(default)]
    pub(crate) programs: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    guard: Vec<Guard>,
}

/// The guards of a list.
pub(crate) fn list(text: &str) -> Result<Vec<Guard>, toml::de::Error> {
    toml::from_str::<List>(text).map(|list| list.guard)
}

impl Guard {
    fn is_meant(&self, filter: &str) -> bool {
        [&self.name, &self.file, &self.test, &self.fails].into_iter().any(|text| text.contains(filter))
    }

    /// Whether both are the same change for the same program, which is then built once.
    fn is_like(&self, other: &Self) -> bool {
        (&self.file, &self.find, &self.replace, &self.test, &self.programs)
            == (&other.file, &other.find, &other.replace, &other.test, &other.programs)
    }
}

/// What became of a test without its guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fails,
    StillPasses,
    DoesNotCompile,
    /// It does not pass with the guard in place, so its failure would tell nothing.
    NeverPasses,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fails => "fails as it must",
            Self::StillPasses => "STILL PASSES",
            Self::DoesNotCompile => "does not compile",
            Self::NeverPasses => "NEVER PASSES",
        })
    }
}

/// Takes away each guard that `filter` is a part of, and tells one line for each; gives how many are not as they must be.
pub(crate) fn run(workspace: &Workspace, filter: &str, tell: impl Fn(&str)) -> anyhow::Result<usize> {
    let text = workspace.tree.text(PATH).with_context(|| format!("{PATH} is missing"))?;
    let mut guards = list(text).with_context(|| format!("{PATH} cannot be read"))?;
    guards.retain(|guard| guard.is_meant(filter));
    ensure!(!guards.is_empty(), "no guard has {filter:?} in its name, file or test");
    refuse_dirty(workspace)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut bench = Bench::new(workspace)?;
        let mut bad = 0_usize;
        let green = bench.green(&guards).await?;
        for like in guards.chunk_by(Guard::is_like) {
            for (guard, verdict, took) in bench.verdicts(like, &green).await? {
                tell(&format!("{verdict:<16}  {:>4} s  {}  ({})", took.as_secs(), guard.fails, guard.name));
                bad = bad.saturating_add(usize::from(verdict != Verdict::Fails));
            }
        }
        Ok(bad)
    })
}

/// A change in progress of one's own could not be told from a guard's.
fn refuse_dirty(workspace: &Workspace) -> anyhow::Result<()> {
    let told = std::process::Command::new("git")
        .args(["status", "--porcelain", "--untracked-files=no"])
        .current_dir(&workspace.root)
        .output()
        .context("git cannot be run")?;
    ensure!(told.status.success(), "this is no git repository");
    ensure!(
        told.stdout.is_empty(),
        "the tree has changes: commit them first, since files are changed and put back"
    );
    Ok(())
}

/// A file without its guard; as it was when dropped.
struct Removed {
    path: PathBuf,
    whole: String,
}

impl Removed {
    fn new(workspace: &Workspace, guard: &Guard) -> anyhow::Result<Self> {
        let path = workspace.root.join(&guard.file);
        let whole = fs::read_to_string(&path).with_context(|| format!("cannot read {}", guard.file))?;
        ensure!(
            whole.matches(&guard.find).count() == 1,
            "{}: `find` must stand once in {}",
            guard.name,
            guard.file
        );
        let without = whole.replacen(&guard.find, &guard.replace, 1);
        let removed = Self { path, whole };
        fs::write(&removed.path, without).with_context(|| format!("cannot write {}", guard.file))?;
        Ok(removed)
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.path, &self.whole) {
            let told = format!(
                "error: {} could not be put back ({error}): `git checkout` it\n",
                self.path.display()
            );
            drop(io::Write::write_all(&mut io::stderr(), told.as_bytes()));
        }
    }
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Good,
    Bad,
}

/// Builds and runs tests, until somebody interrupts.
struct Bench<'a> {
    workspace: &'a Workspace,
    logs: PathBuf,
    interrupt: Signal,
    terminate: Signal,
}

impl<'a> Bench<'a> {
    fn new(workspace: &'a Workspace) -> anyhow::Result<Self> {
        let logs = workspace.target.join("guards");
        fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { workspace, logs, interrupt, terminate })
    }

    /// The tests that pass with every guard in place.
    async fn green(&mut self, guards: &[Guard]) -> anyhow::Result<BTreeSet<(String, String)>> {
        let programs: BTreeSet<(&str, &[String])> =
            guards.iter().map(|guard| (guard.test.as_str(), guard.programs.as_slice())).collect();
        let mut green = BTreeSet::new();
        for (test, programs) in programs {
            let of = |guard: &&Guard| guard.test == test && guard.programs == programs;
            let names: BTreeSet<&str> = guards.iter().filter(of).map(|guard| guard.fails.as_str()).collect();
            ensure!(
                self.build(test, programs, "whole").await? == End::Good,
                "the tree does not compile: cargo test {test}"
            );
            let log = self.log("whole");
            let words = names.iter().copied().chain(["--exact"]);
            self.test(test, words, &log).await?;
            let told = fs::read_to_string(&log).unwrap_or_default();
            let passed = names.into_iter().filter(|name| told.contains(&format!("test {name} ... ok")));
            green.extend(passed.map(|name| (test.to_owned(), name.to_owned())));
        }
        Ok(green)
    }

    /// Takes one guard away, and runs every test that should notice.
    async fn verdicts<'g>(
        &mut self,
        like: &'g [Guard],
        green: &BTreeSet<(String, String)>,
    ) -> anyhow::Result<Vec<(&'g Guard, Verdict, Duration)>> {
        let Some(first) = like.first() else { return Ok(Vec::new()) };
        let removed = Removed::new(self.workspace, first)?;
        let started = Instant::now();
        let built = self.build(&first.test, &first.programs, &first.name).await?;
        let mut verdicts = Vec::new();
        for guard in like {
            let verdict = if built == End::Bad {
                Verdict::DoesNotCompile
            } else if !green.contains(&(guard.test.clone(), guard.fails.clone())) {
                Verdict::NeverPasses
            } else {
                let log = self.log(&format!("{} {}", guard.fails, guard.name));
                match self.test(&guard.test, [guard.fails.as_str(), "--exact"], &log).await? {
                    End::Good => Verdict::StillPasses,
                    End::Bad => Verdict::Fails,
                }
            };
            verdicts.push((guard, verdict, started.elapsed()));
        }
        drop(removed);
        Ok(verdicts)
    }

    /// Where a command's words go.
    fn log(&self, name: &str) -> PathBuf {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
        self.logs.join(format!("{}.log", name.chars().map(plain).collect::<String>()))
    }

    async fn build(&mut self, test: &str, programs: &[String], name: &str) -> anyhow::Result<End> {
        let log = self.log(&format!("{name}.build"));
        for program in programs {
            let arguments = ["build", "--locked", "--package", program, "--bins"];
            if self.cargo(arguments, &log, BUILD_MAX).await? == End::Bad {
                return Ok(End::Bad);
            }
        }
        let arguments = ["test", "--locked", "--no-run"].into_iter().chain(test.split_whitespace());
        self.cargo(arguments, &log, BUILD_MAX).await
    }

    async fn test<'w>(
        &mut self,
        test: &'w str,
        words: impl IntoIterator<Item = &'w str>,
        log: &Path,
    ) -> anyhow::Result<End> {
        let arguments =
            ["test", "--locked"].into_iter().chain(test.split_whitespace()).chain(["--"]).chain(words);
        self.cargo(arguments, log, TEST_MAX).await
    }

    /// Runs cargo in a process group of its own, so that all of it can be ended.
    async fn cargo<'w>(
        &mut self,
        arguments: impl IntoIterator<Item = &'w str>,
        log: &Path,
        time_max: Duration,
    ) -> anyhow::Result<End> {
        let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut cargo = Command::from(self.workspace.cargo());
        // A failing property test would leave its case in the tree.
        cargo.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
        cargo.args(arguments).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).process_group(0);
        let mut child = cargo.spawn().context("cargo cannot be run")?;
        let interrupted = tokio::select! {
            status = child.wait() => return Ok(if status?.success() { End::Good } else { End::Bad }),
            () = tokio::time::sleep(time_max) => false,
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => true,
        };
        end(&mut child).await?;
        ensure!(!interrupted, "interrupted; every file is as it was");
        Ok(End::Bad)
    }
}

/// Ends a process and all that it started.
async fn end(child: &mut Child) -> anyhow::Result<()> {
    if let Some(group) = child.id() {
        std::process::Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status()?;
    }
    child.wait().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(name: &str, find: &str) -> Guard {
        let (file, find, replace) = ("a.rs".to_owned(), find.to_owned(), String::new());
        let (test, fails) = ("-p a".to_owned(), "a::b".to_owned());
        Guard { name: name.to_owned(), file, find, replace, test, fails, programs: Vec::new() }
    }

    #[test]
    fn a_file_is_whole_again_whatever_happens() {
        let root = std::env::temp_dir().join(format!("oncepay-guards-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("a.rs"), "if guard { stop }").unwrap();
        let workspace = Workspace { root: root.clone(), ..Workspace::default() };
        let removed = Removed::new(&workspace, &guard("one", "guard")).unwrap();
        assert_eq!(fs::read_to_string(root.join("a.rs")).unwrap(), "if  { stop }");
        drop(removed);
        assert_eq!(fs::read_to_string(root.join("a.rs")).unwrap(), "if guard { stop }");
        assert!(Removed::new(&workspace, &guard("twice", "a")).is_ok());
        assert!(Removed::new(&workspace, &guard("none", "gone")).is_err());
        assert_eq!(fs::read_to_string(root.join("a.rs")).unwrap(), "if guard { stop }");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn one_change_is_built_once() {
        let guards = [guard("a", "x"), guard("b", "x"), guard("c", "y")];
        assert_eq!(guards.chunk_by(Guard::is_like).map(<[_]>::len).collect::<Vec<_>>(), [2, 1]);
        assert!(guards[0].is_meant("a::b") && guards[0].is_meant("") && !guards[0].is_meant("z"));
    }
}
