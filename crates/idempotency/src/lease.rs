//! Gate 3, the lease. The hole: identical calls in different processes, before any row exists.
//!
//! `SET <key> <owner> NX GET PX <life>`: one command, one round trip, always with a life. The owner renews at a third of
//! the life and releases by compare-and-delete, so nobody ever frees another's lease. Redis may lose everything at any
//! moment: a lease that cannot be had because Redis is slow or down is [`Acquired::Open`], and the call goes on, since
//! the database is the judge. It is counted, so that people see the gate stand open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_redis::redis::{self, Script};
use deadpool_redis::{Config, Pool, PoolConfig, Runtime, Timeouts};
use rand::Rng as _;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Life of a lease: longer than a create call may take in the core, short enough that a dead owner is soon forgotten.
pub const LIFE: Duration = Duration::from_secs(9);
/// Longest wait for one answer of Redis: ten times its slowest healthy answer. Beyond it the gate stands open.
const ANSWER_MAX: Duration = Duration::from_millis(100);
/// After a failure Redis is left alone this long, so that its outage does not slow every call by [`ANSWER_MAX`].
const REST: Duration = Duration::from_millis(500);
/// Connections of one process; each call holds one for one round trip.
const CONNECTIONS_MAX: usize = 32;

const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/// Why leases cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("redis_url cannot be read: {0}")]
pub struct Error(String);

/// Gives leases from one Redis.
#[derive(Clone)]
pub struct Leases {
    pool: Pool,
    life: Duration,
    rest: Arc<Rest>,
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leases").field("life", &self.life).finish_non_exhaustive()
    }
}

/// What became of an attempt to take a lease.
#[derive(Debug)]
#[must_use]
pub enum Acquired {
    /// Ours until released, dropped or lost.
    Held(Lease),
    /// Another owner works on the key; its note tells on what.
    Busy { note: String },
    /// Redis did not answer: the gate stands open, go on.
    Open,
}

impl Leases {
    /// Leases from the Redis at `url`; connects when first used.
    ///
    /// # Errors
    /// When `url` is no Redis address.
    pub fn new(url: &str) -> Result<Self, Error> {
        let mut config = Config::from_url(url);
        let mut pool = PoolConfig::new(CONNECTIONS_MAX);
        pool.timeouts =
            Timeouts { wait: Some(ANSWER_MAX), create: Some(ANSWER_MAX), recycle: Some(ANSWER_MAX) };
        config.pool = Some(pool);
        let pool = config.create_pool(Some(Runtime::Tokio1)).map_err(|error| Error(error.to_string()))?;
        Ok(Self { pool, life: LIFE, rest: Arc::default() })
    }

    /// The same with another life; for tests.
    #[must_use]
    pub fn with_life(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }

    /// Tries once to take the lease on `key`. `note` is told to whoever finds it busy.
    pub async fn acquire(&self, key: &str, note: &str) -> Acquired {
        if self.rest.is_on() {
            return Acquired::Open;
        }
        let owner = format!("{:032x}:{note}", rand::rng().random::<u128>());
        match timeout(ANSWER_MAX, self.set(key, &owner)).await {
            Ok(Ok(None)) => Acquired::Held(Lease::hold(self.clone(), key.to_owned(), owner)),
            Ok(Ok(Some(holder))) => {
                let note = holder.split_once(':').map(|(_, note)| note.to_owned()).unwrap_or_default();
                Acquired::Busy { note }
            }
            Ok(Err(error)) => self.stand_open(&error.to_string()),
            Err(_) => self.stand_open("no answer in time"),
        }
    }

    fn stand_open(&self, why: &str) -> Acquired {
        if self.rest.begin() {
            tracing::warn!(
                gate = "G3",
                why,
                "redis does not answer: leases stand open, the database decides"
            );
        }
        metrics::counter!("oncepay_lease_open_total").increment(1);
        Acquired::Open
    }

    async fn set(&self, key: &str, owner: &str) -> Result<Option<String>, Failure> {
        let mut connection = self.pool.get().await?;
        let set = redis::cmd("SET")
            .arg(key)
            .arg(owner)
            .arg("NX")
            .arg("GET")
            .arg("PX")
            .arg(millis(self.life))
            .to_owned();
        Ok(set.query_async(&mut connection).await?)
    }

    async fn run(&self, script: &str, key: &str, owner: &str) -> Result<bool, Failure> {
        let mut connection = self.pool.get().await?;
        let done: i64 = Script::new(script)
            .key(key)
            .arg(owner)
            .arg(millis(self.life))
            .invoke_async(&mut connection)
            .await?;
        Ok(done == 1)
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Pool(#[from] deadpool_redis::PoolError),
    #[error(transparent)]
    Redis(#[from] redis::RedisError),
}

fn millis(life: Duration) -> u64 {
    u64::try_from(life.as_millis()).unwrap_or(u64::MAX)
}

/// Until when Redis is left alone, in milliseconds since `epoch`.
#[derive(Debug)]
struct Rest {
    epoch: Instant,
    until_ms: AtomicU64,
}

impl Default for Rest {
    fn default() -> Self {
        Self { epoch: Instant::now(), until_ms: AtomicU64::new(0) }
    }
}

impl Rest {
    fn now_ms(&self) -> u64 {
        millis(self.epoch.elapsed()).saturating_add(1)
    }

    fn is_on(&self) -> bool {
        self.until_ms.load(Ordering::Relaxed) > self.now_ms()
    }

    /// Begins a rest; false when one is on already.
    fn begin(&self) -> bool {
        let now = self.now_ms();
        self.until_ms.swap(now.saturating_add(millis(REST)), Ordering::Relaxed) <= now
    }
}

/// A lease that is held. Dropping it releases it in the background.
#[derive(Debug)]
pub struct Lease {
    leases: Leases,
    key: String,
    owner: String,
    lost: CancellationToken,
    released: CancellationToken,
}

impl Lease {
    fn hold(leases: Leases, key: String, owner: String) -> Self {
        let lease =
            Self { leases, key, owner, lost: CancellationToken::new(), released: CancellationToken::new() };
        let (leases, key, owner) = (lease.leases.clone(), lease.key.clone(), lease.owner.clone());
        let (lost, released) = (lease.lost.clone(), lease.released.clone());
        service_kit::task::spawn("idempotency.lease_renewal", async move {
            released.run_until_cancelled(renew(leases, key, owner, lost)).await;
        });
        lease
    }

    /// Waits until the lease is lost: taken by another owner after a stall, or forgotten by Redis.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Gives the lease back, if it is still ours.
    pub async fn release(self) {
        self.released.cancel();
        release(&self.leases, &self.key, &self.owner).await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.released.is_cancelled() {
            return;
        }
        self.released.cancel();
        if tokio::runtime::Handle::try_current().is_ok() {
            let (leases, key, owner) = (self.leases.clone(), self.key.clone(), self.owner.clone());
            service_kit::task::spawn("idempotency.lease_release", async move {
                release(&leases, &key, &owner).await
            });
        }
    }
}

/// Renews at a third of the life, so that two failed renewals are survived; ends when the lease is lost.
async fn renew(leases: Leases, key: String, owner: String, lost: CancellationToken) {
    let third = leases.life.checked_div(3).unwrap_or(leases.life);
    let mut renewed = Instant::now();
    loop {
        tokio::time::sleep(third).await;
        match timeout(ANSWER_MAX, leases.run(RENEW, &key, &owner)).await {
            Ok(Ok(true)) => renewed = Instant::now(),
            Ok(Ok(false)) => break,
            Ok(Err(_)) | Err(_) if renewed.elapsed() < leases.life => {}
            Ok(Err(_)) | Err(_) => break,
        }
    }
    metrics::counter!("oncepay_lease_lost_total").increment(1);
    tracing::warn!(gate = "G3", lease.key = %key, "a lease was lost before its work ended");
    lost.cancel();
}

async fn release(leases: &Leases, key: &str, owner: &str) {
    match timeout(ANSWER_MAX, leases.run(RELEASE, key, owner)).await {
        Ok(Ok(_)) => {}
        // Its life ends by itself.
        Ok(Err(_)) | Err(_) => metrics::counter!("oncepay_lease_release_failed_total").increment(1),
    }
}
