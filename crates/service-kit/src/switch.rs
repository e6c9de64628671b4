//! Switches for proofs: a gate switched off, a process killed at a named point. They exist in debug builds only; in a
//! release build every gate is on and every point is nothing.

use pay_types::Gate;

/// Which gates are off in this instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Switches {
    #[cfg(debug_assertions)]
    off: u16,
}

impl Switches {
    /// All gates on.
    #[must_use]
    pub fn all_on() -> Self {
        Self::default()
    }

    /// These gates off; without effect in a release build.
    #[must_use]
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "release builds have no switches"))]
    pub fn off(gates: &[Gate]) -> Self {
        #[cfg(debug_assertions)]
        {
            Self { off: gates.iter().fold(0, |off, gate| off | bit(*gate)) }
        }
        #[cfg(not(debug_assertions))]
        Self {}
    }

    /// From `ONCEPAY_GATES_OFF`, for example `G1,G3`.
    #[must_use]
    pub fn from_environment() -> Self {
        let text = std::env::var_os("ONCEPAY_GATES_OFF")
            .and_then(|text| text.into_string().ok())
            .unwrap_or_default();
        let gates: Vec<_> = Gate::ALL
            .into_iter()
            .filter(|gate| text.split(',').any(|name| name.trim() == gate.as_str()))
            .collect();
        Self::off(&gates)
    }

    /// Whether the gate guards.
    #[must_use]
    #[cfg_attr(
        not(debug_assertions),
        expect(unused_variables, clippy::unused_self, reason = "release builds have no switches")
    )]
    pub fn is_on(self, gate: Gate) -> bool {
        #[cfg(debug_assertions)]
        {
            self.off & bit(gate) == 0
        }
        #[cfg(not(debug_assertions))]
        true
    }
}

#[cfg(debug_assertions)]
fn bit(gate: Gate) -> u16 {
    Gate::ALL
        .iter()
        .position(|g| *g == gate)
        .and_then(|place| 1_u16.checked_shl(u32::try_from(place).ok()?))
        .unwrap_or(0)
}

/// A named point at which a test may kill the process, as `kill -9` would: no destructor runs, nothing is flushed.
/// `ONCEPAY_KILL_POINT=<name>` kills at the first pass, `<name>:<n>` at the n-th.
#[inline]
#[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "release builds have no kill points"))]
pub fn kill_point(name: &str) {
    #[cfg(debug_assertions)]
    kill::pass(name);
}

#[cfg(debug_assertions)]
mod kill {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Armed {
        name: String,
        passes_left: AtomicU64,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

    pub(super) fn pass(name: &str) {
        let armed = ARMED.get_or_init(|| {
            let text = std::env::var_os("ONCEPAY_KILL_POINT")?.into_string().ok()?;
            let (name, passes) = text.split_once(':').unwrap_or((&text, "1"));
            Some(Armed { name: name.to_owned(), passes_left: AtomicU64::new(passes.parse().unwrap_or(1)) })
        });
        let Some(armed) = armed.as_ref().filter(|armed| armed.name == name) else { return };
        if armed.passes_left.fetch_sub(1, Ordering::SeqCst) == 1 {
            // abort() ends by SIGABRT at once: no unwinding, no flush.
            std::process::abort();
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_gates_are_off() {
        let switches = Switches::off(&[Gate::G3, Gate::G10]);
        for gate in Gate::ALL {
            assert_eq!(switches.is_on(gate), !matches!(gate, Gate::G3 | Gate::G10));
        }
        assert!(Gate::ALL.into_iter().all(|gate| Switches::all_on().is_on(gate)));
    }
}
