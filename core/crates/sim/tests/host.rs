//! The production host under faults (CTL-5, CTL-6, CTL-7).
#![allow(clippy::unwrap_used)]

use headrace_sim::mutants::{HostFault, Mutant};
use headrace_sim::plan::{Fault, Mishap, Planned};
use headrace_sim::run::{Outcome, run_host};
use headrace_sim::scenario::{Profile, Scenario};
use headrace_sim::tally::Tally;
use headrace_sim::trace::Trace;

fn of(profile: Profile, seed: u64, misdeed: Option<HostFault>) -> Outcome {
    run_host(&Scenario::of(profile, seed), misdeed, Trace::silent())
}

/// Run seeds that must pass; returns their event counts.
fn pass(profile: Profile, seeds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let outcome = of(profile, seed, None);
        let violation = outcome.violation;
        assert!(
            violation.is_none(),
            "repeat with: headrace-sim replay --host --profile {profile:?} {seed}: {violation:?}"
        );
        tally.merge(&outcome.tally);
    }
    tally
}

#[test]
fn ctl_7_a_run_is_repeated_exactly() {
    for profile in [Profile::Plain, Profile::Power, Profile::Replaced] {
        for seed in 1_000_000..1_000_004 {
            let (first, again) = (of(profile, seed, None), of(profile, seed, None));
            assert_eq!(first.digest, again.digest, "seed {seed}");
            assert_eq!(first.tally, again.tally, "seed {seed}");
        }
    }
}

#[test]
fn ctl_5_nothing_is_lost_under_faults_and_everything_converges_after_them() {
    let tally = pass(Profile::Plain, 0..25);
    for name in [
        "operations committed",
        "crashes amid sending",
        "crashes amid work on files",
        "crashes while opening",
        "failed syncs",
        "power losses",
        "states restored",
        "clean ends",
        "connections broken",
    ] {
        assert!(tally.get(name) > 0, "{name} never happened");
    }
}

#[test]
fn ctl_5_a_group_that_loses_its_power_during_group_commits_goes_on() {
    let tally = pass(Profile::Power, 0..6);
    assert!(tally.get("prepares that shared a sync") > 0);
}

#[test]
fn ctl_5_replicas_with_empty_disks_and_older_copies_rejoin() {
    let replaced = pass(Profile::Replaced, 0..8);
    assert!(replaced.get("replicas back with a new disk") > 0);
    let restored = pass(Profile::Restored, 0..8);
    assert!(restored.get("older copies found out") > 0);
}

/// A member is lost for good and another one loses its disk. The third has all that is committed, and they continue with the
/// first one given up.
#[test]
fn ctl_5_a_member_is_given_up_and_nothing_is_lost() {
    let tally = pass(Profile::Replaced, 100..120);
    assert!(tally.get("members given up") > 0);
}

/// Regression: a bit of a handshake was flipped in the network, and one replica stopped the other because it took that
/// one for an older copy.
#[test]
fn ctl_6_damaged_handshakes_stop_no_replica() {
    let tally = pass(Profile::Plain, 201..202);
    assert!(tally.get("segments damaged on the way") > 0);
}

/// Regression: a replica with a new disk lost its power after its first superblock was durable and before its marker was.
/// Its directory looked like a proven one.
#[test]
fn ctl_5_a_new_disk_is_unproven_from_its_first_superblock_on() {
    let tally = pass(Profile::Plain, 11_215_163_071..11_215_163_072);
    assert!(tally.get("crashes while opening") > 0);
}

/// A replica restarts with a release that has become too old, while its own log does not contain the newer release yet.
/// Its peers refuse it, and it rejoins after an upgrade.
#[test]
fn ctl_5_a_replica_that_was_shut_out_is_upgraded() {
    let tally = pass(Profile::Plain, 4_672_773_114..4_672_773_115);
    assert!(tally.get("replicas shut out by their peers") > 0);
}

/// Regression: an abandoned state transfer left its file behind.
#[test]
fn ctl_5_a_clean_end_leaves_nothing_half_made() {
    let tally = pass(Profile::Plain, 57..58);
    assert!(tally.get("clean ends") > 0);
}

/// The last message of a process that has ended in order arrives after the first one of its successor.
#[test]
fn ctl_5_a_late_message_of_an_ended_process_has_a_cause() {
    pass(Profile::Plain, 7_350_195_038..7_350_195_039);
}

/// A clean shutdown with a slow disk: work passed to the journal writer during a write becomes durable first.
#[test]
fn ctl_5_a_clean_end_waits_for_a_slow_disk() {
    let tally = pass(Profile::Plain, 31_000_220..31_000_221);
    assert!(tally.get("clean ends") > 0);
}

/// Unsynced writes of a killed process are readable after its restart, and may be lost in a later power loss.
#[test]
fn ctl_5_what_a_killed_process_has_left_is_synced_before_it_is_believed() {
    let tally = pass(Profile::Killed, 0..8);
    assert!(tally.get("crashes before a sync") > 0);
}

/// One disk after the other is full for a while, while commands fill journal files.
#[test]
fn ctl_5_vsr_24_disks_are_full_for_a_while() {
    let mut tally = Tally::default();
    let filling = (0..16)
        .map(|seed| Scenario::of(Profile::Killed, seed))
        .filter(|scenario| scenario.options.workload.padding > 0);
    for mut scenario in filling.take(4) {
        scenario.plan = (0..3)
            .map(|replica| Planned {
                at_ns: 3_000_000_000 * (u64::from(replica) + 1),
                fault: Fault::DiskFull {
                    replica,
                    for_ns: 2_000_000_000,
                },
            })
            .collect();
        let outcome = run_host(&scenario, None, Trace::silent());
        let violation = outcome.violation;
        assert!(violation.is_none(), "{}: {violation:?}", scenario.seed);
        tally.merge(&outcome.tally);
    }
    assert!(tally.get("writes without space") > 0);
}

/// A replica with damaged files refuses to start, or no data is lost.
#[test]
fn ctl_5_files_that_are_cut_short_missing_or_swapped_are_noticed() {
    let mut tally = Tally::default();
    for mishap in [Mishap::CutShort, Mishap::Missing, Mishap::Swapped] {
        for pick in 0..6 {
            let mut scenario = Scenario::of(Profile::Replaced, pick);
            scenario.options.replicas = 3;
            scenario.options.safety_ns = 6_000_000_000;
            scenario.options.checkpoint_ops = 16;
            scenario.plan = vec![Planned {
                at_ns: 3_000_000_000,
                fault: Fault::FileLost {
                    replica: 1,
                    mishap,
                    pick,
                    down_ns: 100_000_000,
                },
            }];
            let outcome = run_host(&scenario, None, Trace::silent());
            let violation = outcome.violation;
            assert!(violation.is_none(), "{mishap:?} {pick}: {violation:?}");
            tally.merge(&outcome.tally);
        }
    }
    for name in [
        "files cut short",
        "files lost",
        "files swapped",
        "starts refused",
    ] {
        assert!(tally.get(name) > 0, "{name} never happened");
    }
}

/// Regression: a checkpoint was damaged beyond use while another member had yet to regain what its disk had lost. Only one
/// member of three was left whose votes counted, and the group was still expected to continue.
#[test]
fn ctl_7_a_group_loses_no_more_members_than_it_can_spare() {
    let damage = [
        Fault::CheckpointDamage { replica: 1 },
        Fault::Crash {
            replicas: 1 << 1,
            power: None,
            down_ns: 100_000_000,
        },
    ];
    // The replica with the new disk cannot connect to the one with the checkpoint.
    let regaining = [
        Fault::Cut {
            links: 1 << (8 + 2) | 1 << (2 * 8 + 1),
            for_ns: 6_000_000_000,
            hold: false,
        },
        Fault::DiskReplaced {
            replica: 2,
            down_ns: 100_000_000,
        },
    ];
    let run_after = |before: &[Fault]| {
        let mut scenario = Scenario::of(Profile::Replaced, 0);
        scenario.options.replicas = 3;
        scenario.options.safety_ns = 10_000_000_000;
        scenario.options.checkpoint_ops = 16;
        scenario.options.damaged_replicas = 1 << 1;
        scenario.options.disk.append_mean_ns = 1_000_000;
        scenario.options.disk.superblock_mean_ns = 1_000_000;
        scenario.options.workload.clients = 4;
        scenario.options.workload.requests = 100_000;
        scenario.options.workload.pause_mean_ns = 20_000_000;
        scenario.options.workload.read_ppm = 0;
        let (before, damage) = (before.iter().cloned(), damage.iter().cloned());
        scenario.plan = before
            .map(|fault| (3_000_000_000, fault))
            .chain(damage.map(|fault| (6_000_000_000, fault)))
            .map(|(at_ns, fault)| Planned { at_ns, fault })
            .collect();
        let outcome = run_host(&scenario, None, Trace::silent());
        let violation = outcome.violation;
        assert!(violation.is_none(), "{violation:?}");
        outcome.tally
    };
    let tally = run_after(&[]);
    assert_eq!(tally.get("starts refused"), 1, "the group spares this one");
    let tally = run_after(&regaining);
    assert_eq!(tally.get("checkpoints that the group needed"), 1);
    assert_eq!(tally.get("replicas back with a new disk"), 1);
}

/// Omitted operations of the host are detected.
#[test]
fn ctl_7_planted_bugs_are_found() {
    let found = |profile, mutant: Mutant| {
        (0..25).any(|seed| of(profile, seed, mutant.misdeed()).violation.is_some())
    };
    for (profile, mutant) in [
        (Profile::Power, Mutant::HostNoJournalSync),
        (Profile::Power, Mutant::HostDirectoryNotSynced),
        (Profile::Power, Mutant::HostListNotSynced),
        (Profile::Replaced, Mutant::HostForgetful),
        (Profile::Killed, Mutant::HostNoSyncAtStart),
        (Profile::Killed, Mutant::HostNamesUnsyncedAtStart),
    ] {
        assert!(found(profile, mutant), "{mutant:?} was not found");
    }
}
