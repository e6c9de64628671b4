//! A TCP proxy that misbehaves on demand: it cuts, freezes, delays, and loses answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use crate::wait::wait_for;
use crate::{background, env};

/// Bytes that one direction holds while it moves them.
const CHUNK_BYTES: usize = 16 * 1024;
/// No limit on answers.
const UNLIMITED: i64 = i64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Open,
    Frozen,
    Cut,
    /// The proxy itself is gone.
    Closed,
}

#[derive(Debug)]
struct Shared {
    line: watch::Sender<Line>,
    /// Whether somebody listens on the address.
    listening: watch::Sender<bool>,
    live: watch::Sender<usize>,
    delay_ms: AtomicU64,
    /// Chunks that clients sent.
    requests: AtomicU64,
    /// The next request that holds this text loses its connection.
    trap: std::sync::Mutex<Option<Trap>>,
    /// Bytes of answers that may still pass; at zero the connection that wanted more is closed.
    answer_bytes_left: AtomicI64,
}

#[derive(Debug, Clone)]
struct Trap {
    text: Vec<u8>,
    arrives: bool,
}

/// A proxy before one upstream. Ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Proxy {
    /// Starts a proxy on a free port before `upstream` (`host:port`).
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
        let addr = listener.local_addr().expect("a bound listener has an address");
        drop(listener);
        Self::listen(addr, upstream, None).await
    }

    /// Starts the proxy before the broker's second listener: clients that connect to [`kafka_proxied_brokers`] talk to the
    /// broker through it only. The broker tells them one fixed address, so only one such proxy exists at a time; others
    /// wait for it.
    pub async fn kafka() -> Self {
        static TURN: std::sync::OnceLock<Arc<Mutex<()>>> = std::sync::OnceLock::new();
        let turn = Arc::clone(TURN.get_or_init(Arc::default)).lock_owned().await;
        let addr = env::address("KAFKA_PROXY_LISTEN").parse().expect("KAFKA_PROXY_LISTEN is host:port");
        Self::listen(addr, &env::address("KAFKA_PROXY_UPSTREAM"), Some(turn)).await
    }

    async fn listen(addr: SocketAddr, upstream: &str, turn: Option<OwnedMutexGuard<()>>) -> Self {
        let shared = Arc::new(Shared {
            line: watch::Sender::new(Line::Open),
            listening: watch::Sender::new(false),
            live: watch::Sender::new(0),
            delay_ms: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            trap: std::sync::Mutex::default(),
            answer_bytes_left: AtomicI64::new(UNLIMITED),
        });
        spawn(accept(addr, upstream.to_owned(), Arc::clone(&shared)));
        let proxy = Self { addr, shared, _turn: turn };
        proxy.wait_listening().await;
        proxy
    }

    /// Where clients connect.
    #[must_use]
    pub fn addr(&self) -> String {
        self.addr.to_string()
    }

    /// Closes every connection and refuses new ones; returns when that is so.
    ///
    /// # Panics
    /// When the proxy has ended.
    pub async fn cut(&self) {
        self.shared.line.send_replace(Line::Cut);
        self.shared.listening.subscribe().wait_for(|listening| !listening).await.expect("we hold the sender");
        self.shared.live.subscribe().wait_for(|live| *live == 0).await.expect("we hold the sender");
    }

    /// Keeps every connection and accepts new ones, and moves no byte.
    pub fn freeze(&self) {
        self.shared.line.send_replace(Line::Frozen);
    }

    /// Undoes cuts, freezes, delays and limits; returns when new connections are accepted.
    pub async fn restore(&self) {
        self.shared.delay_ms.store(0, Ordering::SeqCst);
        self.shared.answer_bytes_left.store(UNLIMITED, Ordering::SeqCst);
        self.shared.line.send_replace(Line::Open);
        self.wait_listening().await;
    }

    /// Holds each chunk, in both directions, for so long.
    pub fn delay(&self, milliseconds: u64) {
        self.shared.delay_ms.store(milliseconds, Ordering::SeqCst);
    }

    /// Lets so many bytes of answers pass, all connections together; the connection that wants more is closed. With 0 a
    /// request still arrives, and its answer is lost.
    pub fn drop_after_bytes(&self, bytes: u32) {
        self.shared.answer_bytes_left.store(i64::from(bytes), Ordering::SeqCst);
    }

    /// The next request that holds `text` loses its connection: after it has arrived and was answered, with the answer
    /// lost, or before it arrived. Later connections are left alone.
    ///
    /// # Panics
    /// Never: the lock is held for an assignment only.
    pub fn cut_at(&self, text: &str, arrives: bool) {
        let trap = Trap { text: text.as_bytes().to_vec(), arrives };
        *self.shared.trap.lock().expect("held for an assignment only") = Some(trap);
    }

    /// How often clients have sent something so far: of one connection that waits for its answers, its turns.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    async fn wait_listening(&self) {
        wait_for(&format!("the proxy to listen on {}", self.addr), async || *self.shared.listening.borrow())
            .await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.line.send_replace(Line::Closed);
        let mut listening = self.shared.listening.subscribe();
        background::finish(async move {
            drop(listening.wait_for(|listening| !listening).await);
        });
    }
}

/// Brokers' address for clients that shall go through [`Proxy::kafka`].
#[must_use]
pub fn kafka_proxied_brokers() -> String {
    env::address("KAFKA_PROXIED_BROKERS")
}

fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    background::handle().spawn(work);
}

async fn accept(addr: SocketAddr, upstream: String, shared: Arc<Shared>) {
    let mut line = shared.line.subscribe();
    loop {
        let Ok(now) = line.wait_for(|line| *line != Line::Cut).await.map(|line| *line) else { return };
        if now == Line::Closed {
            return;
        }
        let Ok(listener) = TcpListener::bind(addr).await else {
            // Another process's test has the address; its turn ends soon.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        shared.listening.send_replace(true);
        serve(&listener, &upstream, &shared).await;
        drop(listener);
        shared.listening.send_replace(false);
    }
}

/// Accepts until the line is cut or closed.
async fn serve(listener: &TcpListener, upstream: &str, shared: &Arc<Shared>) {
    let mut line = shared.line.subscribe();
    loop {
        let accepted = tokio::select! {
            _ = line.wait_for(|line| matches!(line, Line::Cut | Line::Closed)) => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = accepted else { continue };
        shared.live.send_modify(|live| *live = live.saturating_add(1));
        let (upstream, shared) = (upstream.to_owned(), Arc::clone(shared));
        spawn(async move {
            connection(client, &upstream, &shared).await;
            shared.live.send_modify(|live| *live = live.saturating_sub(1));
        });
    }
}

async fn connection(client: TcpStream, upstream: &str, shared: &Shared) {
    let mut line = shared.line.subscribe();
    let work = async {
        let Ok(server) = TcpStream::connect(upstream).await else { return };
        drop((client.set_nodelay(true), server.set_nodelay(true)));
        let (client_read, client_write) = client.into_split();
        let (server_read, server_write) = server.into_split();
        let lost = AtomicBool::new(false);
        tokio::select! {
            () = pump(client_read, server_write, shared, Way::Requests(&lost)) => {}
            () = pump(server_read, client_write, shared, Way::Answers(&lost)) => {}
        }
    };
    tokio::select! {
        _ = line.wait_for(|line| matches!(line, Line::Cut | Line::Closed)) => {}
        () = work => {}
    }
}

/// Which way bytes go, and whether the connection's next answer is lost.
#[derive(Debug, Clone, Copy)]
enum Way<'a> {
    Requests(&'a AtomicBool),
    Answers(&'a AtomicBool),
}

impl Way<'_> {
    /// Whether the connection ends before these bytes.
    fn ends_before(self, bytes: &[u8], shared: &Shared) -> bool {
        match self {
            Self::Answers(lost) => lost.load(Ordering::SeqCst) || !may_pass(shared, bytes.len()),
            Self::Requests(lost) => {
                shared.requests.fetch_add(1, Ordering::SeqCst);
                let mut trap = shared.trap.lock().expect("held for a look only");
                let caught = trap.take_if(|trap| {
                    bytes.windows(trap.text.len()).any(|window| window == trap.text.as_slice())
                });
                if caught.as_ref().is_some_and(|trap| trap.arrives) {
                    lost.store(true, Ordering::SeqCst);
                }
                caught.is_some_and(|trap| !trap.arrives)
            }
        }
    }
}

/// Moves bytes one way until an end closes, a trap closes, or the answers' limit is reached.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared, way: Way<'_>) {
    let mut line = shared.line.subscribe();
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    loop {
        let Ok(count @ 1..) = from.read(&mut chunk).await else { return };
        let delay = shared.delay_ms.load(Ordering::SeqCst);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        if line.wait_for(|line| *line != Line::Frozen).await.is_err() {
            return;
        }
        let Some(bytes) = chunk.get(..count) else { return };
        if way.ends_before(bytes, shared) {
            return;
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

fn may_pass(shared: &Shared, count: usize) -> bool {
    let left = &shared.answer_bytes_left;
    if left.load(Ordering::SeqCst) == UNLIMITED {
        return true;
    }
    let count = i64::try_from(count).unwrap_or(UNLIMITED);
    left.fetch_sub(count, Ordering::SeqCst) >= count
}
