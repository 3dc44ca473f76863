//! The replicas as they are, under faults (CTL-1, CTL-4, CTL-5, CTL-6, CTL-7).
#![allow(clippy::unwrap_used)]

use headrace_sim::machine::Machines;
use headrace_sim::mutants::{Mutant, Planted};
use headrace_sim::run::{Outcome, run, run_with};
use headrace_sim::scenario::Scenario;
use headrace_sim::trace::Trace;

#[test]
fn ctl_7_a_run_is_repeated_exactly() {
    for seed in 1_000_000..1_000_040 {
        let (first, again) = (
            run(&Scenario::from_seed(seed)),
            run(&Scenario::from_seed(seed)),
        );
        assert_eq!(first.digest, again.digest, "seed {seed}");
        assert_eq!(first.tally, again.tally, "seed {seed}");
    }
}

#[test]
fn ctl_7_a_scenario_survives_being_written_down() {
    let scenario = Scenario::from_seed(7);
    let text = serde_json::to_string(&scenario).unwrap();
    let again: Scenario = serde_json::from_str(&text).unwrap();
    assert_eq!(run(&scenario).digest, run(&again).digest);
}

#[test]
fn ctl_1_nothing_is_lost_under_faults_and_everything_converges_after_them() {
    for seed in 0..150 {
        let outcome = run(&Scenario::from_seed(seed));
        assert!(
            outcome.violation.is_none(),
            "seed {seed}: {:?}",
            outcome.violation
        );
    }
}

fn planted(mutant: Mutant, seed: u64) -> Outcome {
    run_with(
        &Scenario::from_seed(seed),
        Planted(mutant),
        mutant.misdeed(),
        &Machines::Names,
        Trace::silent(),
    )
}

#[test]
fn ctl_7_planted_bugs_that_are_cheap_to_find_are_found() {
    for mutant in [
        Mutant::QuorumMinusOne,
        Mutant::TruncateOnLeaving,
        Mutant::RepeatExecuted,
    ] {
        let found = (0..60).any(|seed| planted(mutant, seed).violation.is_some());
        assert!(found, "{mutant:?} was not found in 60 seeds");
    }
}
