//! Links to statement files: given out by a signed call, good for a short time, and for whoever has them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use time::{Duration, OffsetDateTime};

/// Links kept at once; a run asks for a handful.
const LINKS_MAX: usize = 1_000;
/// How long a link is good: Alipay's thirty seconds, the shortest of the two channels.
const LIFE: Duration = Duration::seconds(30);

/// The links that are still good.
#[derive(Debug, Default)]
pub(crate) struct Links(Mutex<HashMap<String, (OffsetDateTime, Bytes)>>);

impl Links {
    /// A new link to this file; gives its last part.
    pub(crate) fn give(&self, file: Bytes, now: OffsetDateTime) -> String {
        let token = format!("{:032x}", rand::random::<u128>());
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, (until, _)| *until > now);
        if links.len() < LINKS_MAX {
            links.insert(token.clone(), (now.saturating_add(LIFE), file));
        }
        token
    }

    /// The file of a link that is still good.
    pub(crate) fn follow(&self, token: &str, now: OffsetDateTime) -> Option<Bytes> {
        let links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(token).filter(|(until, _)| *until > now).map(|(_, file)| file.clone())
    }
}
