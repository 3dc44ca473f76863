//! Clocks and randomness of this machine, and the peers' clocks as learned from pings.

use std::io;

use headrace_model::Level;
use headrace_vsr::{
    api::Event,
    clocks::Agreement,
    frame::{Frame, Release},
    neighbours::{Pings, Reading},
};
use rustix::{
    rand::{GetRandomFlags, getrandom},
    time::{ClockId, clock_gettime},
};

use crate::{surroundings::Machine, thread::ReplicaThread};

/// Pings of a replica, and the clock agreement that was last logged.
#[derive(Debug)]
pub(crate) struct PingState {
    pub(crate) neighbours: Pings,
    logged: &'static str,
    common: Release,
}

impl PingState {
    pub(crate) fn new(neighbours: Pings) -> Self {
        Self {
            neighbours,
            logged: Agreement::Unknown.name(),
            common: Release::FIRST,
        }
    }
}

/// Clocks and randomness of this machine.
#[derive(Debug)]
pub(crate) struct SystemMachine;

impl Machine for SystemMachine {
    /// The monotonic clock continues during suspend.
    fn clock(&self) -> Reading {
        let nanoseconds = |clock| {
            let time = clock_gettime(clock);
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
        };
        Reading {
            monotonic_ns: nanoseconds(ClockId::Boottime),
            wall_ns: nanoseconds(ClockId::Realtime),
        }
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
        }
        Ok(())
    }
}

impl ReplicaThread {
    /// Send pings that are due, and check clock agreement and the releases of the members.
    pub(crate) fn ping(&mut self, now: Reading) {
        self.update_common_release(now);
        let Some(peers) = &mut self.peers else {
            return self.update_clock_agreement(now);
        };
        let pings = self.watch.neighbours.pings(now);
        if pings.is_empty() {
            return;
        }
        for (to, frame) in pings {
            peers.send(to, &frame);
        }
        self.update_clock_agreement(now);
    }

    /// Process a frame of a node. Its clock reading is taken relative to the time of processing.
    pub(crate) fn on_node_frame(&mut self, frame: &Frame) {
        let answer = self.watch.neighbours.on_frame(self.machine.clock(), frame);
        if let (Some(answer), Some(peers)) = (answer, &mut self.peers) {
            peers.send(frame.header.replica, &answer);
        }
    }

    /// Report the release that all members run to the core when it changes.
    fn update_common_release(&mut self, now: Reading) {
        let common = self.watch.neighbours.common_release(now);
        let common = common.unwrap_or(Release::FIRST);
        if common != self.watch.common {
            self.watch.common = common;
            self.work.events.push(Event::CommonRelease(common));
        }
    }

    fn update_clock_agreement(&mut self, now: Reading) {
        let agreement = self.watch.neighbours.agreement(now);
        self.shared.clock(agreement);
        let before = std::mem::replace(&mut self.watch.logged, agreement.name());
        if agreement.name() == before {
            return;
        }
        let (level, line) = match agreement {
            Agreement::Unknown => return,
            // Expected after a start: not logged.
            Agreement::Agreed if before == Agreement::Unknown.name() => return,
            Agreement::Agreed => (
                Level::Info,
                "the clock of this metadata replica agrees with those of the others".to_owned(),
            ),
            Agreement::OwnIsWrong { by_ns } => (
                Level::Warning,
                format!(
                    "the clock of this machine is {} those of the other metadata replicas: the log's time follows them; \
                     set this clock",
                    format_offset(
                        by_ns.unsigned_abs(),
                        if by_ns > 0 { "ahead of" } else { "behind" }
                    )
                ),
            ),
            Agreement::Disagreed { spread_ns } => (
                Level::Warning,
                format!(
                    "the clocks of the metadata replicas that can be reached are {}, and no majority agrees: the log's \
                     time goes on without them; set the clock that is wrong",
                    format_offset(spread_ns, "apart")
                ),
            ),
        };
        self.log(level, line);
    }
}

fn format_offset(by_ns: u64, how: &str) -> String {
    format!(
        "{}.{:01} s {how}",
        by_ns / 1_000_000_000,
        by_ns / 100_000_000 % 10
    )
}
