//! Waves: the parting of a batch, so that it behaves as if its commands had run one by one.

use std::collections::HashMap;

/// Places of the commands, parted so that no wave holds one name twice. Each command comes with the names that it shares with
/// others (a key, an order, a payment); a command goes into the first wave after all earlier ones that share a name.
pub(crate) fn of<const N: usize>(commands: impl Iterator<Item = [String; N]>) -> Vec<Vec<usize>> {
    let mut waves: Vec<Vec<usize>> = Vec::new();
    let mut next: HashMap<String, usize> = HashMap::new();
    for (place, names) in commands.enumerate() {
        let wave = names.iter().filter_map(|name| next.get(name)).copied().max().unwrap_or_default();
        for name in names {
            next.insert(name, wave.saturating_add(1));
        }
        match waves.get_mut(wave) {
            Some(there) => there.push(place),
            None => waves.push(vec![place]),
        }
    }
    waves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_share_a_name_take_their_turns_and_all_others_go_together() {
        let names = [["k1", "o1"], ["k2", "o2"], ["k1", "o3"], ["k3", "o3"], ["k4", "o4"]];
        let waves = of(names.iter().map(|pair| pair.map(str::to_owned)));
        assert_eq!(waves, [vec![0, 1, 4], vec![2], vec![3]]);
    }
}
