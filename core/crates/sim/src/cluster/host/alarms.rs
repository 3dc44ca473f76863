//! Check of the log messages and metrics of the production host against the injected faults.

use headrace_replica::{Level, ReplicaStatus};
use headrace_vsr::superblock::COPY_BYTES;

use super::faults::{places_of, superblock_of};
use super::node::config_of;
use super::{Cluster, Host};
use crate::checker::{Alarm, Check, Violation};
use crate::cluster::Node;
use crate::options::{MILLISECOND, Options};

/// Number of failed writes to a full disk after which the process must have reported the full disk.
const UNREPORTED_ATTEMPTS_MAX: u64 = 4;

/// Difference up to which clocks count as synchronized, as far as a replica can observe.
const CLOCKS_AGREE_NS: u64 = 400 * MILLISECOND;

/// Minimum metrics that a start must report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expected {
    /// Number of damaged records without another record of their operation.
    faulty: usize,
    /// Number of damaged copies of the superblock.
    mended: usize,
}

/// Damage that the next start on the data directory of a node must find.
pub(super) fn expected(node: &Node<Host>, options: &Options, replica: u8) -> Expected {
    if node.storage.has_lost_files
        || (node.storage.injuries.is_empty() && node.storage.superblock_scars.is_empty())
    {
        return Expected::default();
    }
    let config = config_of(options, replica, node.release);
    node.storage.directory.with_disk(|disk| {
        let Some(opened) = superblock_of(disk) else {
            return Expected::default();
        };
        let places = places_of(disk, &opened.superblock, &config);
        // Another record of the operation may be equivalent or take precedence.
        let is_superseded = |op, file, offset| {
            (places.iter())
                .any(|place| place.op == op && (place.file, place.offset) != (file, offset))
        };
        let mut ops: Vec<u64> = (node.storage.injuries.iter())
            .filter(|injury| injury.op > opened.superblock.checkpoint.op)
            .filter(|injury| disk.is_still_damaged(&injury.scar))
            .filter(|injury| !is_superseded(injury.op, injury.file, injury.offset))
            .map(|injury| injury.op)
            .collect();
        ops.sort_unstable();
        ops.dedup();
        let shown = node
            .storage
            .superblock_scars
            .iter()
            .filter(|scar| disk.is_still_damaged(scar));
        let mut copies: Vec<usize> = shown.map(|scar| scar.start() / COPY_BYTES).collect();
        copies.sort_unstable();
        copies.dedup();
        Expected {
            faulty: ops.len(),
            mended: copies.len(),
        }
    })
}

/// Meaning of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// An alarm whose causes the checker knows.
    Alarm(Alarm),
    /// Unsynchronized clocks.
    Clock,
    /// A usual consequence of faults, such as a lost connection or a view change.
    Ordinary,
    Unknown,
}

fn line_of(message: &str) -> Line {
    let known = [
        // Late bytes of a terminated process are refused with reasons of any kind.
        (
            "a connection to the metadata replica was refused",
            Line::Ordinary,
        ),
        ("damaged and are fetched", Line::Alarm(Alarm::Records)),
        ("damaged and is fetched", Line::Alarm(Alarm::Records)),
        (
            "the group waits for a replica that has it",
            Line::Alarm(Alarm::Undecidable),
        ),
        ("the clock of this machine is", Line::Clock),
        ("no majority agrees", Line::Clock),
        ("is full", Line::Alarm(Alarm::Full)),
        (
            "the directory is empty and the group is not",
            Line::Alarm(Alarm::LostDisk),
        ),
        ("must not go on", Line::Alarm(Alarm::OlderCopy)),
        ("no connection to metadata replica", Line::Ordinary),
        ("gave up view", Line::Ordinary),
        // The reason of the halt follows, and is checked separately.
        ("the last inputs before the halt", Line::Ordinary),
    ];
    let says = |(text, _): &&(&str, Line)| message.contains(text);
    known
        .iter()
        .find(says)
        .map_or(Line::Unknown, |(_, line)| *line)
}

impl Cluster<Host> {
    /// Check the metrics of a process that has started.
    pub(super) fn check_start_metrics(
        &self,
        node: u8,
        expected: Expected,
        status: &ReplicaStatus,
    ) -> Result<(), Violation> {
        let counters = status.counters;
        for (what, least, counted, alarm) in [
            // A record of which nothing remains cannot be distinguished from one that was never received.
            (
                "records",
                (expected.faulty as u64).saturating_sub(counters.missing),
                counters.faulty,
                Alarm::Records,
            ),
            (
                "copies of the superblock",
                expected.mended as u64,
                counters.mended_copies,
                Alarm::Superblock,
            ),
        ] {
            if counted < least {
                let what = format!("replica {node} counts {counted} damaged {what}, of {least}");
                return Err(Violation::new(Check::Alarm, what));
            }
            if counted > 0 {
                self.causes.check(node, alarm)?;
            }
        }
        Ok(())
    }

    /// Check a log line of a process.
    pub(super) fn check_log_line(
        &mut self,
        node: u8,
        level: Level,
        message: &str,
    ) -> Result<(), Violation> {
        if level == Level::Info {
            return Ok(());
        }
        match line_of(message) {
            Line::Ordinary => Ok(()),
            Line::Clock => self.judge_clocks(node),
            Line::Unknown => {
                let what = format!(
                    "replica {node} raises an alarm that the judge does not know: {message}"
                );
                Err(Violation::new(Check::Alarm, what))
            }
            Line::Alarm(alarm) => {
                self.tally.add("alarms with a cause");
                if alarm == Alarm::Full {
                    self.nodes[usize::from(node)].storage.has_reported_full = true;
                }
                if alarm == Alarm::LostDisk && !self.nodes[usize::from(node)].has_met_all() {
                    // A new member cannot distinguish a lost disk from a group that was started without it.
                    return Ok(());
                }
                self.causes.check(node, alarm)
            }
        }
    }

    /// Check an alarm about unsynchronized clocks: the largest difference between clocks must be close to the
    /// threshold.
    fn judge_clocks(&self, node: u8) -> Result<(), Violation> {
        let now_ns = self.now_ns();
        let shown = || self.nodes.iter().map(|node| node.clock.wall_ns(now_ns));
        let spread_ns = shown().max().unwrap_or(0) - shown().min().unwrap_or(0);
        if spread_ns < CLOCKS_AGREE_NS {
            let what =
                format!("replica {node} says that clocks are wrong: they are {spread_ns} ns apart");
            return Err(Violation::new(Check::Alarm, what));
        }
        Ok(())
    }

    /// Check at the end of a process that it did not ignore a full disk silently.
    pub(super) fn check_full_disk_reported(&self, node: u8) -> Result<(), Violation> {
        let state = &self.nodes[usize::from(node)];
        let attempts =
            state.storage.directory.counts().without_space - state.storage.without_space_before;
        if attempts >= UNREPORTED_ATTEMPTS_MAX && !state.storage.has_reported_full {
            let what = format!("replica {node} met a full disk {attempts} times, and said nothing");
            return Err(Violation::new(Check::Alarm, what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_alarms_are_known() {
        let full = "the disk of /replica is full: the metadata journal cannot grow";
        assert_eq!(line_of(full), Line::Alarm(Alarm::Full));
        let ordinary = "no connection to metadata replica 1 at replica-1:1: refused";
        assert_eq!(line_of(ordinary), Line::Ordinary);
        assert_eq!(line_of("something else"), Line::Unknown);
    }
}
