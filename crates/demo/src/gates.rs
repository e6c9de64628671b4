//! How often each gate closed, from the services' metrics.

use std::collections::BTreeMap;

use crate::stack::Stack;

/// Closings by gate.
pub(crate) type Closings = BTreeMap<String, u64>;

const METRIC: &str = "oncepay_gate_closed_total{";

/// Sums over all services; one that does not answer counts nothing.
pub(crate) async fn read(stack: &Stack) -> Closings {
    let mut sums = Closings::new();
    for admin in &stack.admin {
        add(&mut sums, &of(admin).await);
    }
    sums
}

/// Closings that one service has counted since its start.
pub(crate) async fn of(admin: &str) -> Closings {
    let Ok(answer) = reqwest::get(format!("http://{admin}/metrics")).await else { return Closings::new() };
    parse(&answer.text().await.unwrap_or_default())
}

fn parse(text: &str) -> Closings {
    let mut sums = Closings::new();
    for line in text.lines().filter_map(|line| line.strip_prefix(METRIC)) {
        let gate =
            line.split_once("gate=\"").and_then(|(_, rest)| rest.split_once('"')).map(|(gate, _)| gate);
        let count = line.rsplit_once(' ').and_then(|(_, count)| count.parse::<u64>().ok());
        if let Some((gate, count)) = gate.zip(count) {
            let sum = sums.entry(gate.to_owned()).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    sums
}

fn add(sums: &mut Closings, more: &Closings) {
    for (gate, count) in more {
        let sum = sums.entry(gate.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}

/// Closings of this run: what stands now and what a killed process had counted, less what stood before.
pub(crate) fn closed(before: &Closings, lost: &Closings, now: &Closings) -> Closings {
    let mut sums = now.clone();
    add(&mut sums, lost);
    for (gate, count) in before {
        if let Some(sum) = sums.get_mut(gate) {
            *sum = sum.saturating_sub(*count);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closings_are_summed_over_reasons_and_a_killed_process_is_not_forgotten() {
        let text = "# TYPE x counter\noncepay_gate_closed_total{gate=\"G4\",reason=\"a\"} 3\noncepay_gate_closed_total{gate=\"G4\",reason=\"b\"} 4\n";
        let now = parse(text);
        assert_eq!(now, Closings::from([("G4".to_owned(), 7)]));
        let lost = Closings::from([("G4".to_owned(), 2), ("G6".to_owned(), 1)]);
        let before = Closings::from([("G4".to_owned(), 1)]);
        assert_eq!(
            closed(&before, &lost, &now),
            Closings::from([("G4".to_owned(), 8), ("G6".to_owned(), 1)])
        );
    }
}
