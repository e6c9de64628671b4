//! Names, numbers and ports that no other test has.

use std::net::TcpListener;

use pay_types::MerchantId;
use service_kit::Clock;

/// Things that a killed test left behind are removed by a later one when they are this old; no test takes so long.
pub(crate) const LEFT_BEHIND_SECONDS: u64 = 3600;

/// A name that says when it was made: `<prefix>_<unix seconds>_<random>`.
#[must_use]
pub fn unique(prefix: &str) -> String {
    format!("{prefix}_{}_{:012x}", now_seconds(), rand::random::<u64>() & 0xffff_ffff_ffff)
}

/// Whether a name made by [`unique`] with this prefix is so old that its test cannot be running.
pub(crate) fn is_left_behind(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('_')?.split('_').next()?.parse::<u64>().ok())
        .is_some_and(|made| made.saturating_add(LEFT_BEHIND_SECONDS) < now_seconds())
}

pub(crate) fn now_seconds() -> u64 {
    Clock::system().now_ms().checked_div(1000).unwrap_or(0)
}

/// A merchant that no other test knows.
///
/// # Panics
/// Never: the text is a valid id.
#[must_use]
pub fn merchant() -> MerchantId {
    format!("M{:016x}", rand::random::<u64>()).parse().expect("letters and digits are a merchant id")
}

/// The seed of a random test: `ONCEPAY_SEED`, or a new one. It is printed, so that a failure can be repeated.
///
/// # Panics
/// When `ONCEPAY_SEED` is no number.
#[must_use]
pub fn seed() -> u64 {
    let seed = match std::env::var_os("ONCEPAY_SEED") {
        Some(text) => text.to_str().and_then(|text| text.parse().ok()).expect("ONCEPAY_SEED is a number"),
        None => rand::random(),
    };
    eprintln!("to repeat: ONCEPAY_SEED={seed}");
    seed
}

/// Ports that tests take: below those from which a system gives a port to each connection that goes out, so that no
/// connection sits on a port between its choice here and its service's bind; and above those of the local stacks.
const PORTS: std::ops::Range<u16> = 10_000..14_000;

/// A port of the loopback address on which nobody listens now, and that no other call of this process was given lately.
///
/// # Panics
/// When the machine has none.
#[must_use]
pub fn free_port() -> u16 {
    // Each process begins at another place.
    static NEXT: std::sync::LazyLock<std::sync::atomic::AtomicU16> =
        std::sync::LazyLock::new(|| rand::random::<u16>().into());
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let count = PORTS.end.saturating_sub(PORTS.start);
    (0..count)
        .map(|_| {
            let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            PORTS.start.saturating_add(next.checked_rem(count).unwrap_or(0))
        })
        .find(is_free)
        .expect("a loopback port is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_old_name_with_the_prefix_is_left_behind() {
        assert!(is_left_behind("t_1000_ab", "t"));
        assert!(!is_left_behind("t_1000_ab", "u"));
        assert!(!is_left_behind("t_x_ab", "t"));
        assert!(!is_left_behind(&unique("t"), "t"));
    }
}
