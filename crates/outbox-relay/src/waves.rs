//! Order for each key past a failure: an event is sent only after every earlier one of its key was acknowledged.
//!
//! A batch is sent in waves. A wave holds the first unsent event of each key; what follows it comes in a later wave, and only
//! if it went well. Different keys never wait for each other within a wave.

use std::collections::{BTreeMap, VecDeque};

/// The events of one batch, by place in it.
#[derive(Debug)]
pub(crate) struct Waves<'a> {
    waiting: BTreeMap<&'a str, VecDeque<usize>>,
}

impl<'a> Waves<'a> {
    /// From the keys of a batch in its order.
    pub(crate) fn new(keys: impl Iterator<Item = &'a str>) -> Self {
        let mut waiting: BTreeMap<&str, VecDeque<usize>> = BTreeMap::new();
        for (place, key) in keys.enumerate() {
            waiting.entry(key).or_default().push_back(place);
        }
        Self { waiting }
    }

    /// The next wave, in the order of the batch; `None` when nothing is left that may be sent.
    pub(crate) fn next(&mut self) -> Option<Vec<usize>> {
        let mut wave: Vec<_> = self.waiting.values_mut().filter_map(VecDeque::pop_front).collect();
        self.waiting.retain(|_, places| !places.is_empty());
        wave.sort_unstable();
        (!wave.is_empty()).then_some(wave)
    }

    /// An event of this key was not acknowledged: what follows it is not sent. Gives how many events that are.
    pub(crate) fn hold(&mut self, key: &str) -> usize {
        self.waiting.remove(key).map_or(0, |places| places.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_goes_in_its_order_one_event_a_wave() {
        let mut waves = Waves::new(["b", "a", "b", "c", "b", "a"].into_iter());
        assert_eq!(waves.next(), Some(vec![0, 1, 3]));
        assert_eq!(waves.next(), Some(vec![2, 5]));
        assert_eq!(waves.next(), Some(vec![4]));
        assert_eq!(waves.next(), None);
    }

    #[test]
    fn after_a_failure_nothing_more_of_its_key_is_sent() {
        let mut waves = Waves::new(["a", "b", "a", "b", "a"].into_iter());
        assert_eq!(waves.next(), Some(vec![0, 1]));
        assert_eq!(waves.hold("a"), 2);
        assert_eq!(waves.next(), Some(vec![3]));
        assert_eq!(waves.next(), None);
        assert_eq!(waves.hold("b"), 0);
    }
}
