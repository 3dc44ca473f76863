//! Configuration of one run, drawn from its seed: whole features are switched off in some runs, so that the others
//! interact undisturbed (swarm testing).

mod data;

use serde::{Deserialize, Serialize};

use crate::random::{Domain, Draw, Fates};

pub use data::DataOptions;

/// One microsecond in nanoseconds.
pub const MICROSECOND: u64 = 1_000;
/// One millisecond in nanoseconds.
pub const MILLISECOND: u64 = 1_000_000;
/// One second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// Character of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Character {
    /// A mix of everything.
    Plain,
    /// Few operations, many views, slow superblocks, many duplicates: coincidences around view changes.
    Duel,
    /// Many operations on healthy nodes, so that logs are compacted and laggards need state transfer.
    Busy,
    /// Damaged disks and power losses.
    Disks,
}

/// Configuration of a run, without its planned faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Character of the run.
    pub character: Character,
    /// Number of members of the group: 1, 3 or 5.
    pub replicas: u8,
    /// True for timeouts with 5 s of silence before a vote instead of 0.6 s.
    pub slow_timeouts: bool,
    /// Length of the phase with faults.
    pub safety_ns: u64,
    /// Number of operations between two checkpoints.
    pub checkpoint_ops: u64,
    /// Number of bytes of prepares that may wait for the journal of a backup.
    #[serde(default = "unstored_bytes")]
    pub unstored_bytes: u64,
    /// Behaviour of the links.
    pub network: NetworkOptions,
    /// Behaviour of the disks.
    pub disk: DiskOptions,
    /// Behaviour of the clients.
    pub workload: WorkloadOptions,
    /// Maximum cost of one step of a slow process; 0 makes every step free.
    pub step_cost_ns: u64,
    /// Time for which a process collects inputs before it takes a step; 0: one step per input.
    pub turn_ns: u64,
    /// Replicas whose durable bytes may be damaged, one bit each. At most Qr - 1 of them.
    pub damaged_replicas: u8,
    /// Maximum skew of each process's clock, in parts per million.
    pub clock_skew_ppm: u32,
    /// Replicas that start with the older of two releases, one bit each; upgrades are among the planned faults.
    pub old_releases: u8,
    /// Replicas whose wall clocks may jump, one bit each. Fewer than a majority, so that the others stay synchronized.
    pub bad_clocks: u8,
    /// Data nodes and their partitions.
    #[serde(default)]
    pub data: DataOptions,
}

/// Behaviour of each directed link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkOptions {
    /// Minimum one-way delay.
    pub delay_min_ns: u64,
    /// Mean of the additional delay, exponentially distributed.
    pub delay_mean_ns: u64,
    /// Frames that are lost, per million.
    pub loss_ppm: u32,
    /// Frames that are duplicated, per million.
    pub duplicate_ppm: u32,
    /// Maximum additional delay of a duplicate.
    pub duplicate_delay_ns: u64,
    /// Frames that are damaged, per million.
    pub corrupt_ppm: u32,
    /// True if frames of one link arrive in order.
    pub fifo: bool,
    /// Maximum number of frames in flight per link; more are dropped.
    pub capacity: u32,
    /// Links without faults regardless of the other options, a bit per `from * 8 + to`: used by shrinking.
    pub perfect_links: u64,
}

/// Behaviour of disks apart from planned faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskOptions {
    /// Mean duration of a journal write with its sync.
    pub append_mean_ns: u64,
    /// Mean duration of a superblock write.
    pub superblock_mean_ns: u64,
    /// Mean duration of a read.
    pub read_mean_ns: u64,
    /// True if names become durable only with a sync of the directory.
    pub weak_names: bool,
    /// True if the size may be durable without data and data without size.
    pub weak_size: bool,
}

/// Behaviour of the clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadOptions {
    /// Number of clients.
    pub clients: u8,
    /// Maximum number of requests of each client in the phase with faults.
    pub requests: u32,
    /// Number of names on which the operations act.
    pub keys: u8,
    /// Mean pause between an answer and the next request.
    pub pause_mean_ns: u64,
    /// Share of reads, per million.
    pub read_ppm: u32,
    /// Kinds of operations in use, one bit each.
    pub operations: u8,
    /// Requests that a client sends again on purpose, per million.
    pub repeat_ppm: u32,
    /// Calls before which a client drops its session and registers with a new identity, per million.
    pub restart_ppm: u32,
    /// Request numbers that are skipped, per million.
    pub gap_ppm: u32,
    /// Maximum padding of an operation's body.
    pub padding: u32,
    /// True if clients wait until the end of their pauses. Otherwise a timer that was set for an earlier call ends a
    /// pause early, so that the load grows over the run.
    #[serde(default)]
    pub rests: bool,
}

impl Options {
    /// Configuration for a seed.
    pub fn from_seed(fates: &Fates) -> Self {
        let mut draw = fates.draw(Domain::Options, 0, 0, 0);
        let character = match draw.below(100) {
            0..45 => Character::Plain,
            45..70 => Character::Duel,
            70..85 => Character::Busy,
            _ => Character::Disks,
        };
        let replicas = match draw.below(100) {
            0..8 => 1,
            8..78 => 3,
            _ => 5,
        };
        let network = NetworkOptions::draw(&mut draw, character);
        let disk = DiskOptions::draw(&mut draw, character);
        let workload = WorkloadOptions::draw(&mut draw, character);
        let slow_timeouts = draw.chance(60_000);
        let safety_ns = draw.within(8, 40) * SECOND * if slow_timeouts { 3 } else { 1 };
        let damaged_replicas = damaged(&mut draw, replicas, character);
        Self {
            character,
            replicas,
            slow_timeouts,
            safety_ns,
            checkpoint_ops: draw.pick(&[16, 32, 64, 128]),
            network,
            disk,
            workload,
            step_cost_ns: draw.pick(&[0, 0, 0, 20 * MICROSECOND, MILLISECOND]),
            turn_ns: draw.pick(&[0, 0, 100 * MICROSECOND, 2 * MILLISECOND, 10 * MILLISECOND]),
            damaged_replicas,
            clock_skew_ppm: draw.pick(&[0, 200, 10_000]),
            bad_clocks: minority(&mut draw, replicas),
            old_releases: old_releases(&mut draw, replicas),
            // Drawn last: other values of a seed stay.
            unstored_bytes: draw.pick(&[
                unstored_bytes(),
                unstored_bytes(),
                unstored_bytes(),
                4096,
            ]),
            data: DataOptions::default(),
        }
    }

    /// Configuration for a seed in which view changes coincide with damage: three members, few operations in bursts,
    /// slow superblocks, stale frames, one disk with damage.
    pub fn duel(fates: &Fates) -> Self {
        let mut draw = fates.draw(Domain::Options, 1, 0, 0);
        let mut options = Self::from_seed(fates);
        options.character = Character::Duel;
        options.replicas = if draw.chance(150_000) { 5 } else { 3 };
        options.bad_clocks = minority(&mut draw, options.replicas);
        options.old_releases = old_releases(&mut draw, options.replicas);
        options.slow_timeouts = false;
        options.safety_ns = draw.within(5, 20) * SECOND;
        options.checkpoint_ops = draw.pick(&[16, 128]);
        options.network = NetworkOptions::draw(&mut draw, Character::Duel);
        options.disk = DiskOptions::draw(&mut draw, Character::Duel);
        options.workload.clients = u8::try_from(draw.within(1, 8)).expect("small");
        options.workload.requests = u32::try_from(draw.within(5, 40)).expect("small");
        options.workload.pause_mean_ns = draw.within(100, 1_500) * MILLISECOND;
        options.workload.padding = 0;
        options.damaged_replicas = if draw.chance(700_000) {
            1 << draw.below(3)
        } else {
            0
        };
        options
    }

    /// Configuration for a seed in which all nodes lose power at once: there are no other faults, and at any moment
    /// every node is writing several prepares.
    pub fn power(fates: &Fates) -> Self {
        let mut draw = fates.draw(Domain::Options, 2, 0, 0);
        let mut options = Self::from_seed(fates);
        options.replicas = if draw.chance(150_000) { 5 } else { 3 };
        options.slow_timeouts = false;
        options.safety_ns = draw.within(6, 16) * SECOND;
        options.network = NetworkOptions::perfect();
        options.disk.append_mean_ns = draw.within(10, 40) * MILLISECOND;
        options.workload = WorkloadOptions {
            clients: u8::try_from(draw.within(6, 16)).expect("small"),
            requests: 400,
            pause_mean_ns: draw.within(1, 30) * MILLISECOND,
            read_ppm: 0,
            restart_ppm: 0,
            padding: draw.pick(&[0, 300, 2_000]),
            ..options.workload
        };
        options.unstored_bytes = unstored_bytes();
        options.step_cost_ns = 0;
        options.turn_ns = 0;
        options.damaged_replicas = 0;
        options.bad_clocks = 0;
        options.old_releases = 0;
        options
    }

    /// Configuration for a seed in which disks are replaced: the network has only planned faults.
    pub fn replaced(fates: &Fates) -> Self {
        let mut draw = fates.draw(Domain::Options, 3, 0, 0);
        let mut options = Self::from_seed(fates);
        options.replicas = if draw.chance(150_000) { 5 } else { 3 };
        options.slow_timeouts = false;
        options.safety_ns = draw.within(5, 20) * SECOND;
        options.network = NetworkOptions::perfect();
        options.workload.clients = options.workload.clients.min(4);
        options.workload.requests = 40;
        options.workload.pause_mean_ns = draw.within(20, 200) * MILLISECOND;
        options.damaged_replicas = 0;
        options.bad_clocks = 0;
        options.old_releases = 0;
        options
    }

    /// Configuration for a seed in which data directories are restored from older copies: there are only planned
    /// faults.
    pub fn restored(fates: &Fates) -> Self {
        let mut draw = fates.draw(Domain::Options, 4, 0, 0);
        let mut options = Self::replaced(fates);
        options.replicas = if draw.chance(150_000) { 5 } else { 3 };
        options.safety_ns = draw.within(8, 25) * SECOND;
        options.workload.pause_mean_ns = draw.within(10, 100) * MILLISECOND;
        options.workload.requests = 200;
        options
    }

    /// Configuration for a seed in which processes crash before a sync and the power fails before the next one: either
    /// few commands with pauses between them, or large ones that fill journal files. Names need a sync.
    pub fn killed(fates: &Fates) -> Self {
        let mut draw = fates.draw(Domain::Options, 5, 0, 0);
        let mut options = Self::replaced(fates);
        options.replicas = 3;
        options.safety_ns = draw.within(14, 28) * SECOND;
        options.checkpoint_ops = 512;
        options.unstored_bytes = unstored_bytes();
        options.disk.append_mean_ns = draw.within(1, 10) * MILLISECOND;
        options.disk.superblock_mean_ns = MILLISECOND;
        options.disk.weak_names = true;
        let fills = draw.chance(500_000);
        let (clients, pause_ms, padding) = if fills {
            (draw.within(3, 6), draw.within(20, 60), 20_000)
        } else {
            (1, draw.within(200, 600), 0)
        };
        options.workload = WorkloadOptions {
            clients: u8::try_from(clients).expect("small"),
            requests: 2_000,
            pause_mean_ns: pause_ms * MILLISECOND,
            read_ppm: 0,
            restart_ppm: 0,
            padding,
            rests: true,
            ..options.workload
        };
        options.step_cost_ns = 0;
        options.turn_ns = 0;
        options
    }

    /// Configuration for a seed of a data node.
    pub fn of_data_node(fates: &Fates) -> Self {
        let mut draw = fates.draw(Domain::Options, 6, 0, 0);
        let mut options = Self::from_seed(fates);
        options.replicas = 1;
        options.slow_timeouts = false;
        options.safety_ns = draw.within(4, 16) * SECOND;
        options.network = NetworkOptions {
            delay_mean_ns: draw.pick(&[100 * MICROSECOND, MILLISECOND, 10 * MILLISECOND]),
            ..NetworkOptions::perfect()
        };
        options.workload = WorkloadOptions {
            clients: u8::try_from(draw.within(1, 6)).expect("small"),
            requests: u32::try_from(draw.within(20, 300)).expect("small"),
            pause_mean_ns: draw.pick(&[1, 10, 100]) * MILLISECOND,
            read_ppm: draw.pick(&[100_000, 300_000, 600_000]),
            padding: draw.pick(&[40, 400, 3_000, 20_000]),
            ..options.workload
        };
        options.disk.append_mean_ns = draw.pick(&[
            100 * MICROSECOND,
            MILLISECOND,
            10 * MILLISECOND,
            40 * MILLISECOND,
        ]);
        options.turn_ns = draw.pick(&[0, 100 * MICROSECOND, 2 * MILLISECOND]);
        options.step_cost_ns = 0;
        options.damaged_replicas = u8::from(draw.chance(300_000));
        options.bad_clocks = 0;
        options.old_releases = 0;
        options.data = DataOptions::draw(&mut draw);
        if options.damaged_replicas > 0 {
            // Damage that comes after a read is served until the next verification.
            options.data.verified_micros = 0;
        }
        options
    }

    /// Time after which an acknowledged message is on the device whatever its level, if nothing delays it.
    pub(crate) const fn background_ns(&self) -> u64 {
        let data = &self.data;
        (data.sync_interval_micros + data.flush_interval_micros) * MICROSECOND
            + SECOND
            + 80 * self.disk.append_mean_ns
    }

    /// Number of members that must hold an operation before it is committed.
    pub const fn replication_quorum(&self) -> u8 {
        self.replicas / 2 + 1
    }
}

/// Bytes that wait for a journal without a bound that matters.
pub(crate) const fn unstored_bytes() -> u64 {
    64 << 20
}

/// Draw the members with the older release: none in half of the runs, some or all in the others.
fn old_releases(draw: &mut Draw, replicas: u8) -> u8 {
    let (mixed, old) = (draw.chance(500_000), draw.within(1, (1 << replicas) - 1));
    if mixed {
        u8::try_from(old).expect("a bit for each of five at most")
    } else {
        0
    }
}

/// Draw a set of members that leaves a majority; in a group of one it is that member.
fn minority(draw: &mut Draw, replicas: u8) -> u8 {
    let first = u8::try_from(draw.below(replicas.into())).expect("small");
    (0..(replicas / 2).max(1)).fold(0, |members, next| {
        members | 1 << ((first + next) % replicas)
    })
}

/// Draw the members that may lose durable bytes: at most Qr - 1, so that each committed operation keeps an intact copy.
fn damaged(draw: &mut Draw, replicas: u8, character: Character) -> u8 {
    let likely = if character == Character::Disks {
        1_000_000
    } else {
        300_000
    };
    let (hit, first) = (draw.chance(likely), draw.below(8));
    let two = draw.chance(500_000);
    if !hit || replicas < 3 {
        return 0;
    }
    let first = u8::try_from(first).expect("below 8") % replicas;
    let second = (first + 1) % replicas;
    if two && replicas == 5 {
        1 << first | 1 << second
    } else {
        1 << first
    }
}

impl NetworkOptions {
    fn draw(draw: &mut Draw, character: Character) -> Self {
        let lan = draw.chance(400_000);
        let delay_min_ns = if lan {
            draw.within(20, 200) * MICROSECOND
        } else {
            draw.within(0, 20) * MILLISECOND
        };
        let delay_mean_ns = if lan {
            draw.within(20, 300) * MICROSECOND
        } else {
            draw.within(0, 40) * MILLISECOND
        };
        let lossless = draw.chance(300_000);
        let loss = u32::try_from(draw.within(0, 300_000)).expect("below a million");
        let duplicates = u32::try_from(draw.within(0, 500_000)).expect("below a million");
        let duplicate_ppm = if character == Character::Duel {
            300_000
        } else {
            draw.pick(&[0, 50_000, duplicates])
        };
        Self {
            delay_min_ns,
            delay_mean_ns,
            loss_ppm: if lossless { 0 } else { loss },
            duplicate_ppm,
            duplicate_delay_ns: draw.pick(&[50 * MILLISECOND, SECOND, 10 * SECOND]),
            corrupt_ppm: draw.pick(&[0, 0, 1_000, 10_000]),
            fifo: draw.chance(300_000),
            capacity: u32::try_from(draw.within(8, 256)).expect("small"),
            perfect_links: 0,
        }
    }

    /// Links without faults.
    pub const fn perfect() -> Self {
        Self {
            delay_min_ns: 200 * MICROSECOND,
            delay_mean_ns: 300 * MICROSECOND,
            loss_ppm: 0,
            duplicate_ppm: 0,
            duplicate_delay_ns: 0,
            corrupt_ppm: 0,
            fifo: true,
            capacity: 4_096,
            perfect_links: 0,
        }
    }
}

impl DiskOptions {
    fn draw(draw: &mut Draw, character: Character) -> Self {
        let append_mean_ns = draw.pick(&[
            100 * MICROSECOND,
            MILLISECOND,
            10 * MILLISECOND,
            40 * MILLISECOND,
        ]);
        let slow = draw.pick(&[1, 4, 20]) * if character == Character::Duel { 10 } else { 1 };
        Self {
            append_mean_ns,
            superblock_mean_ns: (draw.pick(&[200 * MICROSECOND, 4 * MILLISECOND]) * slow)
                .min(400 * MILLISECOND),
            read_mean_ns: draw.pick(&[100 * MICROSECOND, 2 * MILLISECOND, 20 * MILLISECOND]),
            weak_names: draw.chance(500_000),
            weak_size: draw.chance(500_000),
        }
    }
}

impl WorkloadOptions {
    fn draw(draw: &mut Draw, character: Character) -> Self {
        let most = match character {
            Character::Duel => 20,
            Character::Busy => 600,
            Character::Plain | Character::Disks => 150,
        };
        let clients = match character {
            Character::Duel => draw.within(1, 3),
            Character::Busy => draw.within(4, 24),
            Character::Plain | Character::Disks => draw.within(1, 8),
        };
        let pause = match character {
            Character::Duel => draw.within(50, 800),
            Character::Busy => draw.within(0, 10),
            Character::Plain | Character::Disks => draw.pick(&[1, 20, 200]),
        };
        Self {
            clients: u8::try_from(clients).expect("small"),
            requests: u32::try_from(draw.within(most / 4, most)).expect("small"),
            keys: u8::try_from(draw.within(1, 12)).expect("small"),
            pause_mean_ns: pause * MILLISECOND,
            read_ppm: draw.pick(&[0, 100_000, 300_000, 700_000]),
            operations: u8::try_from(draw.within(1, 15)).expect("four bits"),
            repeat_ppm: draw.pick(&[0, 20_000, 100_000]),
            restart_ppm: draw.pick(&[0, 5_000, 50_000]),
            gap_ppm: draw.pick(&[0, 50_000]),
            padding: draw.pick(&[0, 64, 4_096, 20_000]),
            rests: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_stays_within_what_a_quorum_can_lose() {
        for seed in 0..2_000 {
            let options = Options::from_seed(&Fates::new(seed));
            assert!(matches!(options.replicas, 1 | 3 | 5));
            assert!(
                options.damaged_replicas.count_ones() < u32::from(options.replication_quorum()),
                "seed {seed}"
            );
            assert!(
                u32::from(options.damaged_replicas) < 1 << options.replicas,
                "seed {seed}"
            );
        }
    }

    #[test]
    fn every_feature_is_on_in_some_runs_and_off_in_others() {
        let all: Vec<_> = (0..500)
            .map(|seed| Options::from_seed(&Fates::new(seed)))
            .collect();
        for feature in [
            (|o: &Options| o.network.loss_ppm > 0) as fn(&Options) -> bool,
            |o| o.network.duplicate_ppm > 0,
            |o| o.network.corrupt_ppm > 0,
            |o| o.network.fifo,
            |o| o.disk.weak_names,
            |o| o.damaged_replicas > 0,
            |o| o.workload.read_ppm > 0,
            |o| o.step_cost_ns > 0,
            |o| o.slow_timeouts,
            |o| o.unstored_bytes < unstored_bytes(),
        ] {
            let with = all.iter().filter(|options| feature(options)).count();
            assert!((10..490).contains(&with), "{with} of 500");
        }
    }
}
