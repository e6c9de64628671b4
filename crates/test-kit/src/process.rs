//! A service as a real process, to be killed for real.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::name;
use crate::wait::wait_for;

/// Sends a signal by name. The shell's own `kill` is always there.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("/bin/sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(sent.is_ok_and(|status| status.success()), "SIG{name} could not be sent to process {pid}");
}

/// A running service. Killed when dropped; if the test fails, its log is printed.
#[derive(Debug)]
pub struct Process {
    service: String,
    child: Child,
    port: u16,
    admin_port: u16,
    log: PathBuf,
}

impl Process {
    /// Starts a service and waits until it says that it is ready. Settings are given as `ONCEPAY_…` variables; addresses
    /// to listen on are chosen unless given.
    ///
    /// # Panics
    /// When the program is not built, ends, or does not become ready.
    pub async fn start(service: &str, settings: &[(&str, &str)]) -> Self {
        let mut process = Self::spawn(service, settings);
        process.wait_ready().await;
        process
    }

    /// Starts a service without waiting for it, for one that is to die early.
    ///
    /// # Panics
    /// When the program is not built.
    #[must_use]
    pub fn spawn(service: &str, settings: &[(&str, &str)]) -> Self {
        let log = std::env::temp_dir().join(format!("{}.log", name::unique(&format!("oncepay_{service}"))));
        let output =
            File::create(&log).unwrap_or_else(|error| panic!("cannot write {}: {error}", log.display()));
        let prefix = format!("ONCEPAY_{}__", service.replace('-', "_").to_uppercase());
        let (port, admin_port) = (name::free_port(), name::free_port());
        let mut command = Command::new(program(service));
        // The stack's own settings are in the environment and would be taken for this service's.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("ONCEPAY_")) {
                command.env_remove(name);
            }
        }
        command
            .env(format!("{prefix}LISTEN"), format!("127.0.0.1:{port}"))
            .env(format!("{prefix}ADMIN_LISTEN"), format!("127.0.0.1:{admin_port}"))
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::from(output.try_clone().unwrap()))
            .stderr(Stdio::from(output));
        let child = command.spawn().unwrap_or_else(|error| panic!("{service} cannot be started: {error}"));
        let chosen = |field: &str, default: u16| {
            let variable = format!("{prefix}{field}");
            let given = settings.iter().find(|(name, _)| *name == variable);
            given.and_then(|(_, value)| value.rsplit_once(':')?.1.parse().ok()).unwrap_or(default)
        };
        let (port, admin_port) = (chosen("LISTEN", port), chosen("ADMIN_LISTEN", admin_port));
        Self { service: service.to_owned(), child, port, admin_port, log }
    }

    /// Waits until `/readyz` answers 200.
    ///
    /// # Panics
    /// When the process ends before, or does not become ready.
    pub async fn wait_ready(&mut self) {
        let url = format!("http://127.0.0.1:{}/readyz", self.admin_port);
        let what = format!("{} to be ready", self.service);
        let (child, service) = (&mut self.child, &self.service);
        wait_for(&what, || {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "{service} ended before it was ready: {ended:?}");
            is_ok(&url)
        })
        .await;
    }

    /// `host:port` of the main listener.
    #[must_use]
    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `host:port` of the admin listener.
    #[must_use]
    pub fn admin_addr(&self) -> String {
        format!("127.0.0.1:{}", self.admin_port)
    }

    /// Its id, for a look at what it holds.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as a power cut would.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub fn kill9(&mut self) {
        self.child.kill().expect("a process of ours can be killed");
        self.child.wait().expect("a process of ours can be waited for");
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        signal(self.child.id(), "TERM");
    }

    /// Freezes it (SIGSTOP).
    pub fn freeze(&self) {
        signal(self.child.id(), "STOP");
    }

    /// Lets a frozen process go on.
    pub fn resume(&self) {
        signal(self.child.id(), "CONT");
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn wait_exit(&mut self) -> ExitStatus {
        let what = format!("{} to end", self.service);
        let child = &mut self.child;
        wait_for(&what, || {
            let ended = child.try_wait().unwrap();
            async move { ended }
        })
        .await
    }

    /// Whether it has ended by now.
    ///
    /// # Panics
    /// When the system cannot tell.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a process of ours can be asked").is_some()
    }

    /// What it has written so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("--- log of {}\n{}--- end", self.service, self.log());
        }
        drop(std::fs::remove_file(&self.log));
    }
}

/// Whether an address answers 200 within a second.
async fn is_ok(url: &str) -> bool {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(1)).build().unwrap();
    client.get(url).send().await.is_ok_and(|answer| answer.status().is_success())
}

/// One of our programs as the last build left it: beside our own, or, where that is a test's in `deps`, a folder above.
///
/// # Panics
/// When it is not built.
#[must_use]
pub fn program(service: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a process knows its own program");
    let folder = own.parent().expect("a program lies in a folder");
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    let path = folder.join(service);
    assert!(
        path.is_file(),
        "{} is missing: run `cargo build --workspace` first (`make test` does)",
        path.display()
    );
    path
}
