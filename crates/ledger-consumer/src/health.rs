//! What `/readyz` tells of the workers: each has read from the broker, the last time without error.

use std::sync::{Arc, Mutex, PoisonError};

/// State of all workers; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Health(Arc<Mutex<Vec<Result<(), String>>>>);

impl Health {
    pub(crate) fn new(workers: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![Err("has not read from the broker yet".to_owned()); workers])))
    }

    /// Notes how a worker's last step went.
    pub(crate) fn set(&self, worker: usize, state: Result<(), String>) {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = states.get_mut(worker) {
            *slot = state;
        }
    }

    /// The first worker that cannot work, and why.
    pub(crate) fn check(&self) -> Result<(), String> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed =
            states.iter().enumerate().find_map(|(worker, state)| Some((worker, state.as_ref().err()?)));
        match failed {
            None => Ok(()),
            Some((worker, why)) => Err(format!("worker {worker} {why}")),
        }
    }
}
