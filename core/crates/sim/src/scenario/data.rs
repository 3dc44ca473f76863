//! Fault plan of a data node.

use crate::options::{MILLISECOND, Options, SECOND};
use crate::plan::{Damage, Fault, Loss, Planned};
use crate::random::{Domain, Draw, Fates};

#[derive(Clone, Copy)]
enum Kind {
    Crash,
    CrashInStep,
    PowerCut,
    Pause,
    SlowDisk,
    DiskFull,
    SyncError,
    IoErrors,
    Damage,
}

/// Faults of a run of a data node: kinds that this run has, at their own mean intervals.
pub(super) fn plan(fates: Fates, options: &Options) -> Vec<Planned> {
    let mut choice = fates.draw(Domain::Plan, 2, 0, 0);
    let mut plan = Vec::new();
    for (kind, present_ppm, low_ms, high_ms) in [
        (Kind::Crash, 500_000, 500, 6_000),
        (Kind::CrashInStep, 500_000, 300, 5_000),
        (Kind::PowerCut, 600_000, 500, 6_000),
        (Kind::Pause, 200_000, 1_000, 8_000),
        (Kind::SlowDisk, 200_000, 2_000, 8_000),
        (Kind::DiskFull, 150_000, 2_000, 8_000),
        (Kind::SyncError, 250_000, 1_000, 8_000),
        (Kind::IoErrors, 250_000, 1_000, 8_000),
        (Kind::Damage, 1_000_000, 300, 4_000),
    ] {
        let is_present = choice.chance(present_ppm);
        let mean_ns = choice.within(low_ms, high_ms) * MILLISECOND;
        let is_allowed = options.damaged_replicas > 0 || !matches!(kind, Kind::Damage);
        if !is_present || !is_allowed {
            continue;
        }
        let mut at_ns = 0;
        for count in 0..200 {
            let mut draw = fates.draw(Domain::Plan, 3, kind as u64, count);
            at_ns += draw.exponential(mean_ns).max(10 * MILLISECOND);
            if at_ns >= options.safety_ns {
                break;
            }
            let fault = one(kind, &mut draw);
            plan.push(Planned { at_ns, fault });
        }
    }
    plan.sort_by_key(|planned| planned.at_ns);
    plan
}

fn one(kind: Kind, draw: &mut Draw) -> Fault {
    let replica = 0;
    let down_ns = draw.within(1, 500) * MILLISECOND;
    let loss = draw.pick(&[
        Loss::All,
        Loss::None,
        Loss::Prefix,
        Loss::Sectors,
        Loss::Sectors,
    ]);
    match kind {
        Kind::Crash => Fault::Crash {
            replicas: 1,
            power: None,
            down_ns,
        },
        Kind::CrashInStep => Fault::CrashInStep {
            replica,
            outputs: u8::try_from(draw.below(6)).expect("small"),
            power: draw.chance(400_000).then_some(loss),
            down_ns,
        },
        Kind::PowerCut => Fault::Crash {
            replicas: 1,
            power: Some(loss),
            down_ns,
        },
        Kind::Pause => Fault::Pause {
            replica,
            for_ns: draw.within(10, 2_000) * MILLISECOND,
        },
        Kind::SlowDisk => Fault::SlowDisk {
            replica,
            factor: u32::try_from(draw.within(5, 50)).expect("small"),
            for_ns: draw.within(1, 3) * SECOND,
        },
        Kind::DiskFull => Fault::DiskFull {
            replica,
            for_ns: draw.within(50, 3_000) * MILLISECOND,
        },
        Kind::SyncError => Fault::SyncError {
            replica,
            down_ns: draw.within(10, 2_000) * MILLISECOND,
        },
        Kind::IoErrors => Fault::IoErrors {
            replica,
            operations: u8::try_from(draw.within(1, 4)).expect("small"),
            down_ns: draw.within(200, 2_000) * MILLISECOND,
        },
        Kind::Damage => Fault::JournalDamage {
            replica,
            damage: draw.pick(&[Damage::Bits, Damage::Zeros, Damage::Misdirected]),
            pick: draw.word(),
        },
    }
}
