//! A data node under faults (LOG-1, LOG-4, LOG-9, LOG-11, LOG-12, LOG-15).
#![allow(clippy::unwrap_used)]

use headrace_sim::mutants::{Mutant, NodeKind};
use headrace_sim::run::{Outcome, run_data};
use headrace_sim::scenario::Scenario;
use headrace_sim::tally::Tally;
use headrace_sim::trace::Trace;

/// Number of seeds within which each planted bug is found; `make mutants` has the same bound for all.
const BUDGET: u64 = 300;

fn of(seed: u64, bug: Option<Mutant>) -> Outcome {
    run_data(&Scenario::of_data_node(seed), bug, Trace::silent())
}

#[test]
fn a_run_of_a_data_node_is_repeated_exactly() {
    for seed in 0..4 {
        let (first, again) = (of(seed, None), of(seed, None));
        assert_eq!(first.digest, again.digest, "seed {seed}");
        assert_eq!(first.tally, again.tally, "seed {seed}");
    }
}

#[test]
fn a_data_node_keeps_what_it_has_promised() {
    let mut tally = Tally::default();
    for seed in 0..40 {
        let outcome = of(seed, None);
        let violation = outcome.violation;
        assert!(
            violation.is_none(),
            "repeat with: headrace-sim replay --data {seed}: {violation:?}"
        );
        tally.merge(&outcome.tally);
    }
    for name in [
        "batches acknowledged",
        "messages read",
        "crashes during operations on files",
        "power losses",
        "syncs that failed",
        "logs damaged",
    ] {
        assert!(tally.get(name) > 0, "{name} never happened");
    }
}

#[test]
fn bugs_of_a_data_node_are_found() {
    let missed: Vec<_> = Mutant::all(NodeKind::Data)
        .into_iter()
        .filter(|bug| !(0..BUDGET).any(|seed| of(seed, Some(*bug)).violation.is_some()))
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}
