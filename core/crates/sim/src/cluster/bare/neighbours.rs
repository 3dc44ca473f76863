//! Communication between nodes beside that of their replicas: clock readings and releases.

use headrace_buffer::Slice;
use headrace_vsr::api::{Event as Input, Now};
use headrace_vsr::clocks::Window;
use headrace_vsr::frame::{Frame, Release};
use headrace_vsr::rules::Rules;

use super::{Bare, BareEvent, Cluster};
use crate::checker::{Check, Violation};
use crate::cluster::checks::clock_slack_ns;

use crate::mutants::HostFault;

impl<R: Rules + Clone> Cluster<Bare<R>> {
    /// Time of a step of a node's process.
    pub(super) fn now(&self, node: u8) -> Now {
        let state = &self.nodes[usize::from(node)];
        let reading = state.clock.at(self.now_ns());
        let wall = match &state.process {
            Some(_) if self.kind.host_fault == Some(HostFault::ClockBelieved) => {
                Window::exact(reading.wall_ns)
            }
            Some(process) => process.neighbours.window(reading),
            None => Window::UNKNOWN,
        };
        Now {
            monotonic_ns: reading.monotonic_ns,
            wall,
        }
    }

    /// Send a clock request to all others, and schedule the next one.
    pub(super) fn ping(&mut self, node: u8, incarnation: u64) {
        if !self.runs(node, incarnation) {
            return;
        }
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        let Some(process) = &mut state.process else {
            return;
        };
        let pings = process.neighbours.pings(state.clock.at(now_ns));
        let next_ns = process.neighbours.next_ping_ns();
        let at_ns = next_ns.map(|at_ns| state.clock.virtual_of(at_ns).max(now_ns + 1));
        self.pass_common_release(node);
        for (to, frame) in pings {
            self.send(node, to, &Slice::from_vec(frame.encode()));
        }
        if let Some(at_ns) = at_ns {
            self.schedule
                .plan_own(at_ns, 4, BareEvent::Ping { node, incarnation });
        }
    }

    /// Handle a frame from one node to another.
    pub(super) fn handle_node_frame(&mut self, from: u8, to: u8, frame: &Frame) {
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(to)];
        let Some(process) = &mut state.process else {
            return;
        };
        let answer = process.neighbours.on_frame(state.clock.at(now_ns), frame);
        if let Some(answer) = answer {
            self.send(to, from, &Slice::from_vec(answer.encode()));
        }
        self.pass_common_release(to);
    }

    /// Pass the release that all members support to the replica of a process, if it has changed.
    pub(super) fn pass_common_release(&mut self, node: u8) {
        let now_ns = self.now_ns();
        let unasked = self.kind.host_fault == Some(HostFault::ReleaseUnasked);
        let state = &mut self.nodes[usize::from(node)];
        let Some(process) = &mut state.process else {
            return;
        };
        let common = if unasked {
            Some(state.release)
        } else {
            process.neighbours.common_release(state.clock.at(now_ns))
        };
        let common = common.unwrap_or(Release::FIRST);
        if common != process.common {
            process.common = common;
            self.step(node, Some(Input::CommonRelease(common)));
        }
    }

    /// Check after healing that a release supported by all members is in force.
    pub(super) fn check_release(&self) -> Result<(), Violation> {
        let common = self.nodes.iter().map(|node| node.release).min();
        for (node, state) in self.nodes.iter().enumerate() {
            let report = state
                .process
                .as_ref()
                .map(|process| process.replica.report());
            if let (Some(report), Some(common)) = (report, common)
                && report.release < common
            {
                let what = format!(
                    "all members run {common} or later, and replica {node} has {} in force",
                    report.release
                );
                return Err(Violation::new(Check::Release, what));
            }
        }
        Ok(())
    }

    /// Check after healing that all replicas have synchronized clocks, whichever clocks have jumped.
    pub(super) fn check_clocks(&self) -> Result<(), Violation> {
        let now_ns = self.now_ns();
        let right = self.right_clocks().map(|clock| clock.wall_ns(now_ns));
        let Some((first, last)) = right.fold(None, |bounds, wall_ns| {
            let (first, last) = bounds.unwrap_or((wall_ns, wall_ns));
            Some((wall_ns.min(first), wall_ns.max(last)))
        }) else {
            return Ok(());
        };
        let slack_ns = clock_slack_ns(now_ns);
        for node in 0..self.scenario.options.replicas {
            if self.nodes[usize::from(node)].process.is_none() {
                continue;
            }
            let Window {
                earliest_ns,
                latest_ns,
            } = self.now(node).wall;
            if earliest_ns + slack_ns < first || latest_ns > last + slack_ns {
                let what = format!(
                    "replica {node} takes the time to be {earliest_ns} to {latest_ns}, and clocks that are right show \
                     {first} to {last}"
                );
                return Err(Violation::new(Check::Time, what));
            }
        }
        Ok(())
    }
}
