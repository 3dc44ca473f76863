//! Checks and delays that are the same for all kinds of nodes.

use headrace_vsr::api::Status;
use headrace_vsr::frame::PIPELINE_MAX;

use super::group::{ReplicaProcess as _, Replicated};
use super::{Cluster, Process as _};
use crate::checker::{Check, ReplicaState, Violation};
use crate::clock::Clock;
use crate::machine::{Command, NEWER};
use crate::options::{MICROSECOND, MILLISECOND, SECOND};
use crate::random::Domain;

/// Idle time after a write before the journal is sealed.
pub(super) const SEAL_AFTER_NS: u64 = 10 * MILLISECOND;
/// Maximum number of bytes of a frame.
pub(super) const FRAME_BYTES_MAX: u32 = 4 << 20;

/// Maximum difference between clocks that do not jump: their rate errors over the time of a run, plus frame delays.
pub(super) const fn clock_slack_ns(now_ns: u64) -> u64 {
    SECOND + now_ns / 32
}

impl<K: Replicated> Cluster<K> {
    /// Check the externally visible state of a replica.
    pub(super) fn check_state(&mut self, node: u8) {
        let state = &mut self.nodes[usize::from(node)];
        let Some(process) = &state.process else {
            return;
        };
        let report = process.report();
        let result = state.progress.check(ReplicaState {
            incarnation: process.incarnation(),
            view: report.view,
            log_view: report.log_view,
            op: report.op,
            commit_min: report.commit_min,
            commit_max: report.commit_max,
            checkpoint_op: report.checkpoint_op,
            is_primary: report.status == Status::Normal && report.primary == node,
            pipeline_max: PIPELINE_MAX,
        });
        self.check(node, result);
    }

    /// Check that a replica executes only commands that its release supports.
    pub(super) fn check_known(&self, node: u8, commands: &[Command]) -> Result<(), Violation> {
        let release = self.nodes[usize::from(node)].release;
        match commands.iter().find(|command| command.since() > release) {
            Some(command) => {
                let what = format!(
                    "replica {node} of release {release} is to execute command {} of {}",
                    command.id,
                    command.since()
                );
                Err(Violation::new(Check::Release, what))
            }
            None => Ok(()),
        }
    }

    /// Check that the first execution of an operation has a timestamp that some clock without jumps has reached.
    pub(super) fn check_time(&self, op: u64, stamped_ns: u64) -> Result<(), Violation> {
        let now_ns = self.now_ns();
        let right = self.right_clocks().map(|clock| clock.wall_ns(now_ns));
        match right.max() {
            Some(latest_ns) if stamped_ns > latest_ns + clock_slack_ns(now_ns) => {
                let ahead_ms = (stamped_ns - latest_ns) / MILLISECOND;
                let what = format!(
                    "operation {op} is stamped {ahead_ms} ms ahead of all clocks that are right"
                );
                Err(Violation::new(Check::Time, what))
            }
            _ => Ok(()),
        }
    }

    /// Clocks that do not jump; none in a group of one.
    pub(super) fn right_clocks(&self) -> impl Iterator<Item = &Clock> {
        let bad = self.scenario.options.bad_clocks;
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(move |(replica, _)| bad >> replica & 1 == 0)
            .map(|(_, node)| &node.clock)
    }

    /// Time that the state machine of a node takes for an answer.
    pub(super) fn machine_delay_ns(&mut self, node: u8) -> u64 {
        let mut draw = self.draw(Domain::Process, node);
        if draw.chance(20_000) && !self.healed {
            draw.below(300 * MILLISECOND)
        } else {
            draw.below(200 * MICROSECOND)
        }
    }

    /// Upgrade a program that refuses a log for which its release is too old, as an operator would.
    pub(super) fn upgrade_refused(&mut self, node: u8) {
        self.tally.add("older releases refused");
        let state = &mut self.nodes[usize::from(node)];
        if !state.has_run_newer {
            let what = format!(
                "replica {node} has never run {NEWER}, and is shut out as that is in force"
            );
            return self.fail(node, Violation::new(Check::Release, what));
        }
        state.release = NEWER;
        K::halt(self, node, SECOND / 5);
    }
}
