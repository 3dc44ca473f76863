//! Hand-written fault plans, one for each known failure of other systems: every run covers what seeds cover only
//! occasionally. The numbers are those of the list in `docs/testing.md`.

use headrace_sim::options::{MILLISECOND, Options, SECOND};
use headrace_sim::plan::{Damage, Fault, Loss, Planned};
use headrace_sim::random::Fates;
use headrace_sim::run::run;
use headrace_sim::scenario::Scenario;
use headrace_sim::tally::Tally;

/// Primary of the first view.
const PRIMARY: u8 = 1;
/// Number of runs of each plan.
const SEEDS: u64 = 2;

/// Three members on a good network, with clients that never stop, and no faults.
fn calm(seed: u64) -> Scenario {
    let mut options = Options::replaced(&Fates::new(seed));
    options.replicas = 3;
    options.safety_ns = 10 * SECOND;
    options.checkpoint_ops = 32;
    options.workload.clients = 4;
    options.workload.requests = 100_000;
    options.workload.pause_mean_ns = 20 * MILLISECOND;
    options.workload.read_ppm = 300_000;
    Scenario {
        seed,
        options,
        plan: Vec::new(),
    }
}

fn at(ms: u64, fault: Fault) -> Planned {
    Planned {
        at_ns: ms * MILLISECOND,
        fault,
    }
}

/// Run the plan under a few seeds, which differ in delays. Returns the sum of the event counts.
fn under(plan: &[Planned], change: impl Fn(&mut Options)) -> Tally {
    let mut all = Tally::default();
    for seed in 0..SEEDS {
        let mut scenario = calm(seed);
        change(&mut scenario.options);
        scenario.plan = plan.to_vec();
        let outcome = run(&scenario);
        assert!(
            outcome.violation.is_none(),
            "seed {seed}: {:?}",
            outcome.violation
        );
        assert!(outcome.tally.get("operations committed") > 100);
        all.merge(&outcome.tally);
    }
    all
}

/// Bit of the link from one member to another.
const fn link(from: u8, to: u8) -> u64 {
    1 << (from as u32 * 8 + to as u32)
}

#[test]
fn ctl_5_vsr_15_a_laggard_takes_a_checkpoint_when_the_log_is_compacted() {
    let alone = link(2, 0) | link(0, 2) | link(2, 1) | link(1, 2);
    let cut = Fault::Cut {
        links: alone,
        for_ns: 6 * SECOND,
        hold: false,
    };
    let tally = under(&[at(1_000, cut)], |_| {});
    assert!(tally.get("state transfers") >= SEEDS, "{tally:?}");
    assert!(tally.get("checkpoints") > 30, "{tally:?}");
}

#[test]
fn ctl_5_vsr_17_bytes_rot_on_a_minority() {
    let damage = |ms, damage| {
        at(
            ms,
            Fault::JournalDamage {
                replica: 2,
                damage,
                pick: ms,
            },
        )
    };
    let crash = Fault::Crash {
        replicas: 1 << 2,
        power: None,
        down_ns: 100 * MILLISECOND,
    };
    let plan = [
        damage(2_000, Damage::Bits),
        damage(2_100, Damage::Zeros),
        damage(2_200, Damage::Unreadable),
        at(2_300, crash),
        damage(4_000, Damage::Misdirected),
    ];
    let tally = under(&plan, |options| options.damaged_replicas = 1 << 2);
    assert!(tally.get("records damaged") >= 2 * SEEDS, "{tally:?}");
}

#[test]
fn ctl_5_vsr_18_the_power_of_all_goes_while_they_write() {
    for loss in [Loss::All, Loss::Prefix, Loss::Sectors] {
        let cut = |ms| {
            at(
                ms,
                Fault::PowerCut {
                    loss,
                    down_ns: 50 * MILLISECOND,
                },
            )
        };
        let tally = under(&[cut(2_000), cut(5_000), cut(8_000)], |_| {});
        assert_eq!(tally.get("power cuts of all"), 3 * SEEDS);
    }
}

#[test]
fn ctl_4_vsr_20_a_primary_that_sends_and_cannot_hear() {
    let deaf = Fault::Cut {
        links: link(0, PRIMARY) | link(2, PRIMARY),
        for_ns: 6 * SECOND,
        hold: false,
    };
    let tally = under(&[at(2_000, deaf)], |_| {});
    assert!(tally.get("abdications") >= SEEDS, "{tally:?}");
    // Exactly one view change, from view 1 to 2.
    assert!(tally.get("views") <= 3 * SEEDS, "{tally:?}");
}

#[test]
fn ctl_1_vsr_21_a_primary_stands_still_for_thirty_seconds_and_answers_nothing_old() {
    let pause = Fault::Pause {
        replica: PRIMARY,
        for_ns: 30 * SECOND,
    };
    let tally = under(&[at(2_000, pause)], |options| {
        options.safety_ns = 35 * SECOND;
        options.workload.pause_mean_ns = 200 * MILLISECOND;
    });
    assert!(tally.get("reads answered") > 100, "{tally:?}");
}

#[test]
fn ctl_4_vsr_22_all_restart_at_once() {
    let crash = |ms| {
        at(
            ms,
            Fault::Crash {
                replicas: 0b111,
                power: None,
                down_ns: 10 * MILLISECOND,
            },
        )
    };
    let tally = under(&[crash(2_000), crash(2_030), crash(6_000)], |_| {});
    assert!(tally.get("crashes") >= 6 * SEEDS, "{tally:?}");
}

#[test]
fn ctl_5_vsr_23_a_sync_fails_on_one() {
    let fails = |replica, ms| {
        at(
            ms,
            Fault::SyncError {
                replica,
                down_ns: 300 * MILLISECOND,
            },
        )
    };
    let tally = under(&[fails(PRIMARY, 2_000), fails(0, 5_000)], |_| {});
    assert_eq!(tally.get("failed syncs"), 2 * SEEDS);
}

#[test]
fn ctl_5_vsr_24_the_disk_of_the_primary_is_full() {
    let full = Fault::DiskFull {
        replica: PRIMARY,
        for_ns: 3 * SECOND,
    };
    let tally = under(&[at(2_000, full)], |_| {});
    assert!(tally.get("appends without space") >= SEEDS, "{tally:?}");
}

#[test]
fn ctl_1_vsr_25_the_clock_of_the_primary_jumps_by_an_hour() {
    let hour = 3_600_000_000_000;
    let jump = |ms, by_ns| {
        at(
            ms,
            Fault::ClockJump {
                replica: PRIMARY,
                by_ns,
            },
        )
    };
    let plan = [jump(2_000, hour), jump(4_000, -2 * hour), jump(6_000, hour)];
    let tally = under(&plan, |options| options.bad_clocks = 1 << PRIMARY);
    assert_eq!(tally.get("clock jumps"), 3 * SEEDS);
}
