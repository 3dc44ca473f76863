//! Unmodified replicas under faults (CTL-1, CTL-4, CTL-5, CTL-6, CTL-7).
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use headrace_sim::checker::Check;
use headrace_sim::machine::Machines;
use headrace_sim::mutants::{Mutant, Planted};
use headrace_sim::run::{Outcome, run, run_host, run_with};
use headrace_sim::scenario::{Profile, Scenario};
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
    let (mut searched, mut forgotten) = (0, 0);
    for seed in 0..150 {
        let outcome = run(&Scenario::from_seed(seed));
        searched += outcome.tally.get("names searched");
        forgotten += outcome.tally.get("newest records damaged");
        assert!(
            outcome.violation.is_none(),
            "seed {seed}: {:?}",
            outcome.violation
        );
    }
    assert!(
        searched > 0,
        "no answers were looked at without the numbers of the log"
    );
    assert!(forgotten > 0, "no record was damaged before its seal");
}

/// Any combination of the pages of one write survives a power loss, a different one on every disk.
#[test]
fn ctl_5_a_group_that_loses_its_power_during_group_commits_goes_on() {
    for seed in 0..20 {
        let outcome = run(&Scenario::of(Profile::Power, seed));
        assert!(
            outcome.violation.is_none(),
            "seed {seed}: {:?}",
            outcome.violation
        );
    }
    let torn = Scenario::of(Profile::Power, 171);
    let outcome = of(Mutant::HostHoleIsDamage, &torn);
    let violation = outcome
        .violation
        .expect("the same operation is torn out everywhere");
    // No replica can decide about the operation, although nothing was damaged.
    assert_eq!(violation.check, Check::Alarm);
    assert!(run(&torn).violation.is_none());
}

/// Damage is reported, and nothing else is.
#[test]
fn ctl_7_alarms_have_causes_and_damage_raises_them() {
    for mutant in [Mutant::HostDamageOverlooked, Mutant::HostIntactIsDamage] {
        let found = (0..300).find_map(|seed| of(mutant, &Scenario::from_seed(seed)).violation);
        assert_eq!(found.map(|violation| violation.check), Some(Check::Alarm));
    }
}

/// A member with an empty disk does not start a new group, and its earlier acknowledgements are not lost.
#[test]
fn ctl_5_disks_are_replaced_and_nothing_is_lost() {
    let mut back = 0;
    for seed in 0..20 {
        let outcome = run(&Scenario::of(Profile::Replaced, seed));
        assert!(
            outcome.violation.is_none(),
            "seed {seed}: {:?}",
            outcome.violation
        );
        back += outcome.tally.get("replicas back with a new disk");
    }
    assert!(back > 0, "no disk was replaced");
    for mutant in [Mutant::HostForgetful, Mutant::HostEmptyQuorumIsNew] {
        let found = (0..20).any(|seed| {
            let scenario = Scenario::of(Profile::Replaced, seed);
            of(mutant, &scenario).violation.is_some()
        });
        assert!(found, "{mutant:?} was not found in 20 seeds");
    }
}

fn planted(mutant: Mutant, seed: u64) -> Outcome {
    of(mutant, &Scenario::from_seed(seed))
}

fn of(mutant: Mutant, scenario: &Scenario) -> Outcome {
    run_with(
        scenario,
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

/// Regression: the seal of a truncated view was taken to vouch for the operations that had replaced the sealed ones. A
/// replica that had only their headers took them for damaged, and no view could start without the third member.
#[test]
fn ctl_1_a_replica_denies_what_it_never_had() {
    // In the last two a view that began with a shorter log lies in between, with and without a record of its own.
    for seed in [20_261_144_995, 15_303_705_836, 90_027_921] {
        let violation = run(&Scenario::from_seed(seed)).violation;
        assert!(violation.is_none(), "seed {seed}: {violation:?}");
    }
}

/// Regression: the simulator's host cut its journal without a seal when the file was full. An old seal vouched for the
/// operation that replaced a cut one and whose append was torn; the replica took it for damaged, and no view could start
/// without the third member.
#[test]
fn ctl_1_a_cut_is_sealed_in_the_place_of_what_is_cut() {
    let seed = 771_001_031;
    let violation = run(&Scenario::from_seed(seed)).violation;
    assert!(violation.is_none(), "seed {seed}: {violation:?}");
    let found = (0..20).find_map(|seed| {
        let scenario = Scenario::of(Profile::Power, seed);
        of(Mutant::HostCutUnsealed, &scenario).violation
    });
    assert_eq!(found.map(|violation| violation.check), Some(Check::Alarm));
}

/// Minimized runs that have failed once, of the core and of the production host. The name of each file describes the
/// failure.
#[test]
fn ctl_7_runs_that_failed_once_pass() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    for file in files(corpus) {
        let outcome = run(&scenario(&file));
        let violation = outcome.violation;
        assert!(violation.is_none(), "{}: {violation:?}", file.display());
    }
    for file in files(&format!("{corpus}/host")) {
        let outcome = run_host(&scenario(&file), None, Trace::silent());
        let violation = outcome.violation;
        assert!(violation.is_none(), "{}: {violation:?}", file.display());
    }
}

/// Files of a directory, in order.
fn files(directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    assert!(!files.is_empty());
    files
}

fn scenario(file: &Path) -> Scenario {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Peers that remember the newer state detect a data directory that was restored from a backup, and no data is lost.
#[test]
fn ctl_5_older_copies_of_directories_are_found_out() {
    let mut found_out = 0;
    for seed in 0..12 {
        let outcome = run(&Scenario::of(Profile::Restored, seed));
        let violation = outcome.violation;
        assert!(violation.is_none(), "seed {seed}: {violation:?}");
        found_out += outcome.tally.get("older copies found out");
    }
    assert!(found_out > 5, "{found_out}");
    let lost = (0..20).any(|seed| {
        let scenario = Scenario::of(Profile::Restored, seed);
        of(Mutant::HostOlderCopyBelieved, &scenario)
            .violation
            .is_some()
    });
    assert!(lost, "where older copies are believed nothing is lost");
}
