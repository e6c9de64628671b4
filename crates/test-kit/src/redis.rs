//! Redis: the stack's own, and a private one that a test may stop, freeze and kill.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::process::signal;
use crate::wait::wait_for;
use crate::{env, name};

/// The shared Redis. Tests use merchants of their own, so their keys never meet.
#[must_use]
pub fn redis_url() -> String {
    env::address("REDIS_URL")
}

/// A Redis for one test, on its own port, without persistence.
#[derive(Debug)]
pub struct PrivateRedis {
    port: u16,
    server: Option<Child>,
}

impl PrivateRedis {
    /// Starts a server and waits until it answers.
    pub async fn start() -> Self {
        let mut redis = Self { port: name::free_port(), server: None };
        redis.restart().await;
        redis
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Freezes the server (SIGSTOP): connections stay, nothing is answered.
    ///
    /// # Panics
    /// When it is not running.
    pub fn stop(&self) {
        signal(self.server.as_ref().expect("the private redis is running").id(), "STOP");
    }

    /// Lets a frozen server go on.
    ///
    /// # Panics
    /// When it is not running.
    pub fn resume(&self) {
        signal(self.server.as_ref().expect("the private redis is running").id(), "CONT");
    }

    /// Kills the server; its data is gone.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            drop(server.kill());
            drop(server.wait());
        }
    }

    /// Starts the server anew on the same port, empty.
    ///
    /// # Panics
    /// When `redis-server` is not installed or does not answer.
    pub async fn restart(&mut self) {
        self.kill();
        let port = self.port.to_string();
        let server = Command::new("redis-server")
            .args([
                "--port",
                &port,
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
                "/tmp",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("redis-server cannot be started, run `make test`: {error}"));
        self.server = Some(server);
        let port = self.port;
        wait_for("the private redis to answer", async || answers(port)).await;
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        self.kill();
    }
}

fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let limit = Duration::from_millis(500);
        let mut stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0_u8; 7];
        stream.read_exact(&mut answer)?;
        Ok(answer == *b"+PONG\r\n")
    };
    ask().unwrap_or(false)
}
