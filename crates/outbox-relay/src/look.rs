//! Where in the queue to look: a lower bound below which nothing can be, for the index alone.
//!
//! Deleted rows stay in the index until no open transaction can see them. Behind one long snapshot (a backup takes an hour)
//! every look from the beginning would walk over all that was ever sent since: 0.3 s for a million rows. So a look begins at
//! a floor.
//!
//! A cursor would skip rows whose transactions commit late, and would let a later event of a payment pass an earlier one. A
//! floor does neither, because it waits for the transactions: an event takes its number while its transaction runs, so when
//! number n has been seen, every lower number belongs to a transaction that had begun by then. Once all of those have ended,
//! one more look from the old floor sees all of their rows; when those are gone too, the floor may stand at n.
//! Transactions that only read do not count here, and it is they who keep the dead rows in the index.
//!
//! A parked event may be put back at any time, before events of its key that wait. While anything is parked there are no
//! floors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::{Place, Snapshot};

/// Time between two looks from the very beginning, for rows that a person put into the queue by hand.
const FULL_LOOK_PAUSE: Duration = Duration::from_secs(60);

/// The floors of the shards that are owned.
#[derive(Debug, Default)]
pub(crate) struct Look {
    floors: BTreeMap<i16, i64>,
    next: Option<Next>,
    parked: bool,
    full_at: Option<Instant>,
}

/// Floors to come.
#[derive(Debug)]
struct Next {
    /// Every transaction below it must have ended.
    transaction: i64,
    floors: BTreeMap<i16, i64>,
}

impl Look {
    /// Where this round begins in each of the shards.
    pub(crate) fn begin(&mut self, shards: &[i16], now: Instant) -> Vec<i64> {
        if self.full_at.is_none_or(|at| now >= at) {
            self.forget();
            self.full_at = now.checked_add(FULL_LOOK_PAUSE);
        }
        shards.iter().map(|shard| self.floors.get(shard).copied().unwrap_or(0)).collect()
    }

    /// What became of a round: `read` are the rows that were seen, in order and at most `rows_max` of a shard; `done` those of
    /// them that are now gone; `parked` says whether any was parked.
    pub(crate) fn settle(&mut self, seen: Snapshot, rows_max: usize, rounds: Rows<'_>) {
        self.parked = seen.parked || rounds.parked;
        if self.parked {
            self.forget();
            return;
        }
        let shards = shards(rounds, rows_max);
        if let Some(next) = self.next.take_if(|next| seen.oldest_transaction >= next.transaction) {
            for (shard, floor) in next.floors {
                let end = shards.get(&shard).and_then(|shard| shard.open_at).unwrap_or(i64::MAX);
                self.floors.insert(shard, floor.min(end));
            }
        }
        if self.next.is_none() {
            let floors =
                shards.into_iter().map(|(shard, s)| (shard, s.open_at.unwrap_or(s.past_last))).collect();
            self.next = Some(Next { transaction: seen.next_transaction, floors });
        }
    }

    fn forget(&mut self) {
        self.floors.clear();
        self.next = None;
    }
}

/// The rows of a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) read: &'a [Place],
    pub(crate) done: &'a [Place],
    pub(crate) parked: bool,
}

#[derive(Debug, Default)]
struct Shard {
    rows: usize,
    past_last: i64,
    /// The first number from which rows may be left; `None`: nothing that was visible is left.
    open_at: Option<i64>,
}

fn shards(rows: Rows<'_>, rows_max: usize) -> BTreeMap<i16, Shard> {
    let done: BTreeSet<_> = rows.done.iter().collect();
    let mut shards: BTreeMap<i16, Shard> = BTreeMap::new();
    for place in rows.read {
        let shard = shards.entry(place.shard).or_default();
        shard.rows = shard.rows.saturating_add(1);
        shard.past_last = place.event_id.saturating_add(1);
        if shard.open_at.is_none() && !done.contains(place) {
            shard.open_at = Some(place.event_id);
        }
    }
    for shard in shards.values_mut().filter(|shard| shard.rows >= rows_max) {
        shard.open_at = shard.open_at.or(Some(shard.past_last));
    }
    shards
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(event_id: i64) -> Place {
        Place { bucket: 64, event_id, shard: 1 }
    }

    fn seen(oldest_transaction: i64, next_transaction: i64) -> Snapshot {
        Snapshot { oldest_transaction, next_transaction, parked: false }
    }

    /// One round of shard 1: what was read, what of it is gone.
    fn round(look: &mut Look, seen: Snapshot, read: &[i64], done: &[i64]) -> i64 {
        let (read, done): (Vec<_>, Vec<_>) =
            (read.iter().map(|id| place(*id)).collect(), done.iter().map(|id| place(*id)).collect());
        look.settle(seen, 4, Rows { read: &read, done: &done, parked: false });
        look.begin(&[1], Instant::now())[0]
    }

    fn look() -> Look {
        let mut look = Look::default();
        assert_eq!(look.begin(&[1], Instant::now()), [0]);
        look
    }

    /// Transaction 50 holds number 3 and is open while 5 and 6 are sent. Fails when a floor moves without waiting.
    #[test]
    fn a_floor_never_passes_a_number_whose_transaction_is_open() {
        let mut look = look();
        assert_eq!(round(&mut look, seen(50, 60), &[5, 6], &[5, 6]), 0);
        assert_eq!(round(&mut look, seen(50, 61), &[7], &[7]), 0, "50 is still open");
        // It commits: its row is seen below 7, with a later one of its key. Both go out in order, then the floor moves.
        assert_eq!(round(&mut look, seen(62, 62), &[3, 8], &[3, 8]), 7);
        assert_eq!(round(&mut look, seen(63, 63), &[], &[]), 9);
    }

    #[test]
    fn a_floor_stays_at_what_is_left_and_behind_a_full_read() {
        let mut look = look();
        round(&mut look, seen(10, 10), &[5, 6], &[6]);
        assert_eq!(round(&mut look, seen(10, 10), &[5], &[]), 5, "5 failed");
        let mut look = self::look();
        round(&mut look, seen(10, 10), &[5, 6, 7, 8], &[5, 6, 7, 8]);
        // Four rows are the most that a round reads: there may be more between 4 and 9.
        assert_eq!(round(&mut look, seen(10, 10), &[1, 2, 3, 4], &[1, 2, 3, 4]), 5);
    }

    #[test]
    fn there_is_no_floor_while_something_is_parked() {
        let mut look = look();
        round(&mut look, seen(10, 10), &[5], &[5]);
        assert_eq!(round(&mut look, seen(10, 10), &[], &[]), 6);
        let rows = Rows { read: &[], done: &[], parked: true };
        look.settle(seen(10, 10), 4, rows);
        assert_eq!(look.begin(&[1], Instant::now()), [0]);
        let parked = Snapshot { parked: true, ..seen(10, 10) };
        assert_eq!(round(&mut look, parked, &[7], &[7]), 0);
        assert_eq!(round(&mut look, parked, &[], &[]), 0);
    }
}
