//! Clean shutdowns: everything is written, and the next start has nothing to report about the data directory.

use headrace_replica::ReplicaEvent;

use super::faults::superblock_of;
use super::{Cluster, Host};
use crate::checker::{Cause, Check, Violation};
use crate::cluster::Node;

impl Cluster<Host> {
    /// Stop a process as its operator would, and restart it later.
    pub(super) fn stop(&mut self, node: u8, down_ns: u64) {
        if self.group.undetected_rollback.is_some() || !self.finish_process(node) {
            return;
        }
        self.plan_start(node, down_ns);
    }

    /// Shut the process of a node down cleanly. Returns false if none is running or it failed during the shutdown.
    fn finish_process(&mut self, node: u8) -> bool {
        let now_ns = self.now_ns();
        let state = &mut self.nodes[usize::from(node)];
        let Some(process) = state.process.take() else {
            return false;
        };
        self.trace.event(now_ns, node, "stop", &[]);
        self.trace.explain(now_ns, node, || "stops".to_owned());
        let status = process.replica.status();
        process.stepped.finish();
        self.count(&status);
        if self.nodes[usize::from(node)].storage.directory.is_dead() {
            self.crash_at_file_operation(node);
            return false;
        }
        self.tally.add("clean ends");
        self.causes.add(node, Cause::Stop);
        self.end_process(node);
        true
    }

    /// Shut all processes down cleanly and check their data directories.
    pub(super) fn end_cleanly(&mut self, core: &[u8]) {
        for &node in core {
            let Some(process) = &self.nodes[usize::from(node)].process else {
                continue;
            };
            let head = process.stepped.report().op;
            if self.violation.is_none() && self.finish_process(node) {
                let result = self.check_directory(node, head);
                self.check(node, result);
            }
        }
    }

    /// Check that the copies of the superblock are equal, no file is incomplete, and a start finds the complete log and
    /// has nothing to report.
    fn check_directory(&mut self, node: u8, head: u64) -> Result<(), Violation> {
        let state = &self.nodes[usize::from(node)];
        let wrong = |what: String| {
            let what = format!("after a clean end of replica {node} {what}");
            Err(Violation::new(Check::CleanShutdown, what))
        };
        if let Some(name) = incomplete_file(state) {
            return wrong(format!("{name} is left"));
        }
        let is_whole = state
            .storage
            .directory
            .with_disk(|disk| superblock_of(disk).is_some_and(|opened| opened.repair.is_empty()));
        if !is_whole && !state.storage.has_damaged_superblock {
            return wrong("the copies of its superblock differ".to_owned());
        }
        state.storage.directory.begin();
        let opened = state.open(&self.scenario.options, node, &self.kind.wires);
        let (replica, mut stepped) = match opened {
            Ok(opened) => opened,
            Err(_)
                if state.storage.has_damaged_superblock
                    || state.storage.has_damaged_checkpoint
                    || state.storage.has_lost_files =>
            {
                return Ok(());
            }
            Err(error) => return wrong(format!("it does not start: {error}")),
        };
        let found = stepped.started().head_op;
        // The log after a damaged record is not trusted until peers have sent that record again.
        if found != head && !state.storage.has_damaged_records && !state.storage.has_lost_files {
            return wrong(format!("its log ends with {found} instead of {head}"));
        }
        stepped.process();
        let said = replica
            .take_events()
            .into_iter()
            .find_map(|event| match event {
                ReplicaEvent::Log { message, .. }
                    if message.contains("of the metadata journal") =>
                {
                    Some(message)
                }
                _ => None,
            });
        match said {
            Some(message)
                if !state.storage.has_damaged_records && !state.storage.has_lost_files =>
            {
                wrong(format!("it reports: {message}"))
            }
            _ => Ok(()),
        }
    }
}

/// Name of an incomplete file, if any. Only the preallocated journal file may exist before its use.
fn incomplete_file(node: &Node<Host>) -> Option<String> {
    node.storage.directory.with_disk(|disk| {
        let mut names = disk.names().map(str::to_owned);
        names.find(|name| name.contains("unfinished") && name != "wal-spare.unfinished")
    })
}
