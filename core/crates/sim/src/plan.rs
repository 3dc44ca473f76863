//! Fault plan: an explicit list of faults and their times, made from the seed before the run.

mod coincidences;

use serde::{Deserialize, Serialize};

use crate::options::{Character, MILLISECOND, Options, SECOND};
use crate::random::{Domain, Draw, Fates};

pub use coincidences::{kills, power_cuts, replacements, restorations};

/// Planned fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Time of the fault.
    pub at_ns: u64,
    /// Fault.
    pub fault: Fault,
}

/// Effect of a power loss on unsynced writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// All of them are lost.
    All,
    /// None of them is lost.
    None,
    /// The first ones survive, the last of those torn.
    Prefix,
    /// Arbitrary sectors survive, possibly later ones without earlier ones.
    Sectors,
}

/// Damage to bytes at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Damage {
    /// A few bits flip.
    Bits,
    /// A sector reads as zeros: a lost write that the disk had acknowledged.
    Zeros,
    /// A sector holds bytes of another place: a misdirected write.
    Misdirected,
    /// A sector cannot be read until it is written again.
    Unreadable,
}

/// Damage to a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mishap {
    /// The file is truncated.
    CutShort,
    /// The file is missing.
    Missing,
    /// The contents of the file and another one of its kind are swapped.
    Swapped,
}

/// Fault to inject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// Processes crash; with `power` the page cache is lost as well. They restart after `down_ns`.
    Crash {
        /// Affected replicas, one bit each.
        replicas: u8,
        /// Effect of a power loss; `None`: only the process crashes.
        power: Option<Loss>,
        /// Time until the restart.
        down_ns: u64,
    },
    /// All nodes lose power at the same time.
    PowerCut {
        /// Effect on unsynced writes.
        loss: Loss,
        /// Minimum time until the restart.
        down_ns: u64,
    },
    /// A process crashes between two outputs of its next step.
    CrashInStep {
        /// Affected replica.
        replica: u8,
        /// Number of outputs that are still executed.
        outputs: u8,
        /// Effect of a power loss, if any.
        power: Option<Loss>,
        /// Time until the restart.
        down_ns: u64,
    },
    /// A process crashes before a sync, after all bytes to be synced were written; they survive in the page cache. The
    /// simulator's own host has no file operations between which it could crash, and crashes at once.
    CrashAtSync {
        /// Affected replica.
        replica: u8,
        /// True for a sync of the directory, false for one of a journal file.
        of_directory: bool,
        /// Number of these syncs that are still executed.
        after: u8,
        /// Time until the restart.
        down_ns: u64,
    },
    /// A process is paused while clocks and queues continue.
    Pause {
        /// Affected replica.
        replica: u8,
        /// Duration.
        for_ns: u64,
    },
    /// Directed links are cut.
    Cut {
        /// Links to cut, a bit per `from * 8 + to`.
        links: u64,
        /// Duration.
        for_ns: u64,
        /// True if frames are held back until the end of the cut, like retransmitted bytes of a connection.
        hold: bool,
    },
    /// A disk becomes slow.
    SlowDisk {
        /// Affected replica.
        replica: u8,
        /// Factor for the latency.
        factor: u32,
        /// Duration.
        for_ns: u64,
    },
    /// Appends find no space.
    DiskFull {
        /// Affected replica.
        replica: u8,
        /// Duration.
        for_ns: u64,
    },
    /// The next sync fails; the system drops the pages.
    SyncError {
        /// Affected replica.
        replica: u8,
        /// Time until the restart of the process, which must stop.
        down_ns: u64,
    },
    /// The next operations on files fail, except syncs. Data nodes only.
    IoErrors {
        /// Affected replica.
        replica: u8,
        /// Number of operations.
        operations: u8,
        /// Time until the process is restarted.
        down_ns: u64,
    },
    /// A durable journal record, or a file of a partition, is damaged.
    JournalDamage {
        /// Affected replica.
        replica: u8,
        /// Kind of damage.
        damage: Damage,
        /// Selects one of the records that may be damaged.
        pick: u64,
    },
    /// A process crashes, and its newest durable record is damaged before any head states that it was durable: provided that
    /// all other members hold the operation. The simulator's own host only.
    NewestDamage {
        /// Affected replica.
        replica: u8,
        /// Kind of damage.
        damage: Damage,
        /// Time until the restart.
        down_ns: u64,
    },
    /// Copies of the superblock in one pair are damaged.
    SuperblockDamage {
        /// Affected replica.
        replica: u8,
        /// First or second pair.
        pair: u8,
    },
    /// A durable checkpoint is damaged.
    CheckpointDamage {
        /// Affected replica.
        replica: u8,
    },
    /// The disk of a node is replaced by an empty one, unless another node has not recovered from the same fault.
    DiskReplaced {
        /// Affected replica.
        replica: u8,
        /// Time until the restart.
        down_ns: u64,
    },
    /// A member is lost for good, another one loses its disk, and the operator gives up the former: the rest of the group
    /// continues with that setting. It waits until one of the others holds all that is committed. Production host with three
    /// members only.
    GivenUp {
        /// Replica that loses its disk.
        replica: u8,
        /// Time until the restart.
        down_ns: u64,
    },
    /// The data directory of a node is copied.
    DirectoryCopied {
        /// Affected replica.
        replica: u8,
    },
    /// The data directory of a node is replaced by the copy, provided that all other members remember a newer state.
    DirectoryRestored {
        /// Affected replica.
        replica: u8,
        /// Time until the restart.
        down_ns: u64,
    },
    /// A whole file of a node is damaged while its process is down; production host only.
    FileLost {
        /// Affected replica.
        replica: u8,
        /// Kind of damage.
        mishap: Mishap,
        /// Selects the file.
        pick: u64,
        /// Time until the restart.
        down_ns: u64,
    },
    /// The next record read returns bytes of another sector, once.
    Misread {
        /// Affected replica.
        replica: u8,
    },
    /// A process restarts with another release.
    Release {
        /// Affected replica.
        replica: u8,
        /// True for the newer release; the older one is refused if it does not support the log.
        newer: bool,
        /// Time until the restart.
        down_ns: u64,
    },
    /// The wall clock of a node jumps.
    ClockJump {
        /// Affected replica.
        replica: u8,
        /// Difference; the monotonic clock is unaffected.
        by_ns: i64,
    },
}

/// Faults of a run.
pub fn from_seed(fates: &Fates, options: &Options) -> Vec<Planned> {
    let mut plan = Vec::new();
    for (kind, mean_ns) in rates(&mut fates.draw(Domain::Plan, 0, 0, 0), options) {
        let mut at_ns = 0;
        for count in 0.. {
            let mut draw = fates.draw(Domain::Plan, 1, kind as u64, count);
            at_ns += draw.exponential(mean_ns).max(10 * MILLISECOND);
            if at_ns >= options.safety_ns || count == 200 {
                break;
            }
            let fault = one(kind, &mut draw, options);
            plan.push(Planned { at_ns, fault });
        }
    }
    plan.sort_by_key(|planned| planned.at_ns);
    plan
}

/// All links of one member, in both directions.
fn around(alone: u8, n: u8) -> u64 {
    (0..n)
        .filter(|member| *member != alone)
        .fold(0, |links, member| {
            links | link(alone, member) | link(member, alone)
        })
}

/// Bit of a directed link.
fn link(from: u8, to: u8) -> u64 {
    1 << (u32::from(from) * 8 + u32::from(to))
}

#[derive(Clone, Copy)]
enum Kind {
    Crash,
    CrashInStep,
    PowerCut,
    Pause,
    Cut,
    SlowDisk,
    DiskFull,
    SyncError,
    JournalDamage,
    SuperblockDamage,
    CheckpointDamage,
    ClockJump,
    DiskReplaced,
    Release,
    Misread,
    FileLost,
    NewestDamage,
}

/// Mean interval between faults, for each kind of this run.
fn rates(draw: &mut Draw, options: &Options) -> Vec<(Kind, u64)> {
    let duel = options.character == Character::Duel;
    let unit = if options.slow_timeouts {
        3 * MILLISECOND
    } else {
        MILLISECOND
    };
    let often = if duel { 200 } else { 1_000 };
    let mut rates = Vec::new();
    for (kind, usual, low, high) in [
        (Kind::Crash, 750_000, often, 10_000),
        (Kind::CrashInStep, 500_000, often, 10_000),
        (Kind::Pause, 400_000, 1_000, 10_000),
        (Kind::Cut, 600_000, often, 8_000),
        (Kind::SlowDisk, 300_000, 2_000, 15_000),
        (Kind::DiskFull, 100_000, 5_000, 20_000),
        (Kind::SyncError, 150_000, 3_000, 20_000),
        (
            Kind::JournalDamage,
            1_000_000,
            if duel { 50 } else { 300 },
            if duel { 800 } else { 4_000 },
        ),
        (Kind::SuperblockDamage, 300_000, 2_000, 10_000),
        (Kind::CheckpointDamage, 200_000, 5_000, 15_000),
        (Kind::ClockJump, 300_000, 3_000, 10_000),
        (Kind::PowerCut, 300_000, often, 6_000),
        (Kind::DiskReplaced, 200_000, often, 8_000),
        (Kind::Release, 800_000, often, 8_000),
        (Kind::Misread, 500_000, often, 4_000),
        (Kind::FileLost, 300_000, 2_000, 12_000),
        // Drawn last: other faults of a seed stay.
        (Kind::NewestDamage, 500_000, often, 4_000),
    ] {
        let (present, mean_ns) = (draw.chance(usual), draw.within(low, high) * unit);
        let damage = matches!(
            kind,
            Kind::JournalDamage
                | Kind::SuperblockDamage
                | Kind::CheckpointDamage
                | Kind::Misread
                | Kind::FileLost
                | Kind::NewestDamage
        );
        let forbidden = match kind {
            // At most one member at a time may have lost durable data.
            Kind::DiskReplaced => options.damaged_replicas > 0 || options.replicas == 1,
            Kind::Release => options.old_releases == 0,
            _ => damage && options.damaged_replicas == 0,
        };
        if present && !forbidden {
            rates.push((kind, mean_ns));
        }
    }
    rates
}

fn one(kind: Kind, draw: &mut Draw, options: &Options) -> Fault {
    let n = options.replicas;
    let replica = u8::try_from(draw.below(n.into())).expect("fewer than eight");
    let short_ns = draw.exponential(600 * MILLISECOND) + 10 * MILLISECOND;
    let long_ns = draw.exponential(3 * SECOND) + 10 * MILLISECOND;
    let down_ns = if draw.chance(700_000) {
        short_ns
    } else {
        long_ns
    };
    let power = draw
        .chance(500_000)
        .then(|| draw.pick(&[Loss::All, Loss::None, Loss::Prefix, Loss::Sectors]));
    let damaged = members(options.damaged_replicas);
    match kind {
        Kind::Crash => Fault::Crash {
            replicas: if draw.chance(100_000) {
                (1 << n) - 1
            } else {
                1 << replica
            },
            power,
            down_ns,
        },
        Kind::CrashInStep => Fault::CrashInStep {
            replica,
            outputs: u8::try_from(draw.below(4)).expect("below four"),
            power,
            down_ns,
        },
        Kind::DiskReplaced => Fault::DiskReplaced { replica, down_ns },
        Kind::Release => Fault::Release {
            replica,
            newer: draw.chance(750_000),
            down_ns: short_ns,
        },
        Kind::PowerCut => Fault::PowerCut {
            loss: draw.pick(&[Loss::All, Loss::Prefix, Loss::Sectors, Loss::Sectors]),
            down_ns: short_ns,
        },
        Kind::Pause => Fault::Pause {
            replica,
            for_ns: down_ns,
        },
        Kind::Cut => Fault::Cut {
            links: cut(draw, n),
            for_ns: if draw.chance(500_000) {
                long_ns
            } else {
                short_ns
            },
            hold: draw.chance(300_000),
        },
        Kind::SlowDisk => Fault::SlowDisk {
            replica,
            factor: u32::try_from(draw.within(5, 100)).expect("small"),
            for_ns: long_ns,
        },
        Kind::DiskFull => Fault::DiskFull {
            replica,
            for_ns: down_ns,
        },
        Kind::SyncError => Fault::SyncError { replica, down_ns },
        Kind::JournalDamage => Fault::JournalDamage {
            replica: draw.pick(&damaged),
            damage: draw.pick(&[
                Damage::Bits,
                Damage::Zeros,
                Damage::Misdirected,
                Damage::Unreadable,
            ]),
            pick: draw.word(),
        },
        Kind::NewestDamage => Fault::NewestDamage {
            replica: draw.pick(&damaged),
            damage: draw.pick(&[Damage::Bits, Damage::Zeros, Damage::Unreadable]),
            down_ns: short_ns,
        },
        Kind::SuperblockDamage => Fault::SuperblockDamage {
            replica: draw.pick(&damaged),
            pair: u8::try_from(draw.below(2)).expect("a bit"),
        },
        Kind::CheckpointDamage => Fault::CheckpointDamage {
            replica: draw.pick(&damaged),
        },
        Kind::FileLost => Fault::FileLost {
            replica: draw.pick(&damaged),
            mishap: draw.pick(&[Mishap::CutShort, Mishap::Missing, Mishap::Swapped]),
            pick: draw.word(),
            down_ns: short_ns,
        },
        Kind::Misread => Fault::Misread {
            replica: draw.pick(&damaged),
        },
        Kind::ClockJump => Fault::ClockJump {
            replica: draw.pick(&members(options.bad_clocks)),
            by_ns: i64::try_from(draw.below(7_200 * SECOND)).expect("two hours")
                - 3_600_000_000_000,
        },
    }
}

/// Members in a bit set.
fn members(bits: u8) -> Vec<u8> {
    (0..8).filter(|member| bits >> member & 1 == 1).collect()
}

/// Draw the links to cut: one member alone, any split, one direction, or one pair.
fn cut(draw: &mut Draw, n: u8) -> u64 {
    let (a, b) = (draw.below(n.into()), draw.below(n.into()));
    let (a, b) = (
        u8::try_from(a).expect("small"),
        u8::try_from(b).expect("small"),
    );
    let side = draw.below(1 << n);
    let mode = draw.below(5);
    let mut links = 0;
    for from in 0..n {
        for to in 0..n {
            let out = match mode {
                0 => (from == a) != (to == a),
                1 => (side >> from & 1) != (side >> to & 1),
                2 => from == a && to != a,
                3 => to == a && from != a,
                _ => (from == a && to == b) || (from == b && to == a),
            };
            if out && from != to {
                links |= link(from, to);
            }
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_lies_within_the_safety_phase_and_is_a_function_of_the_seed() {
        let mut faults = 0;
        for seed in 0..300 {
            let fates = Fates::new(seed);
            let options = Options::from_seed(&fates);
            let plan = from_seed(&fates, &options);
            assert_eq!(plan, from_seed(&fates, &options));
            assert!(plan.is_sorted_by_key(|planned| planned.at_ns));
            assert!(plan.iter().all(|planned| planned.at_ns < options.safety_ns));
            faults += plan.len();
        }
        assert!(faults > 1_000, "{faults}");
    }

    #[test]
    fn bytes_at_rest_are_damaged_only_where_the_quorum_can_afford_it() {
        for seed in 0..500 {
            let fates = Fates::new(seed);
            let options = Options::from_seed(&fates);
            for planned in from_seed(&fates, &options) {
                if let Fault::JournalDamage { replica, .. }
                | Fault::SuperblockDamage { replica, .. }
                | Fault::CheckpointDamage { replica } = planned.fault
                {
                    assert_eq!(options.damaged_replicas >> replica & 1, 1, "seed {seed}");
                }
            }
        }
    }
}
