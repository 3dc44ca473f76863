//! Operations on files: they take effect some time after they were requested, and complete some time after that.

use headrace_log::storage::{StorageCompletion, StorageOperation, StorageOutcome, StorageRequest};
use headrace_model::Namespace;
use headrace_shard::Input;

use super::directory::Conditions;
use super::process::Operation;
use super::{Cluster, Data, DataEvent};
use crate::checker::StoredOffset;
use crate::mutants::Mutant;
use crate::options::{MICROSECOND, MILLISECOND};
use crate::random::Domain;

/// Time by which a bug reports an operation before it takes effect.
const EARLY_NS: u64 = 30 * MILLISECOND;

impl Cluster<Data> {
    /// Begin an operation.
    pub(super) fn begin_operation(
        &mut self,
        node: u8,
        shard: usize,
        namespace: Namespace,
        request: StorageRequest,
    ) {
        let now_ns = self.now_ns();
        let disk = &self.scenario.options.disk;
        let mean_ns = match request.operation {
            StorageOperation::Read { .. } => disk.read_mean_ns,
            StorageOperation::Allocate { .. } => 10 * MICROSECOND,
            _ => disk.append_mean_ns,
        };
        let mut draw = self.draw(Domain::Disk, node);
        let state = &mut self.nodes[usize::from(node)];
        let is_slow = state.slow_until_ns > now_ns;
        let factor = if is_slow { state.slow_factor.into() } else { 1 };
        let takes_ns = (draw.exponential(mean_ns / 2) * factor).max(MICROSECOND);
        let is_early = is_early(self.kind.bug, &request.operation);
        let Some(process) = &mut state.process else {
            return;
        };
        process.operations_begun += 1;
        let (number, incarnation) = (process.operations_begun, process.incarnation);
        let operation = Operation {
            shard,
            namespace,
            request,
            outcome: is_early.then_some(Ok(StorageOutcome::Done)),
        };
        self.trace.event(now_ns, node, "operation", &[number]);
        self.trace.explain(now_ns, node, || {
            format!("operation {number}: {operation:.300?}")
        });
        process.operations.insert(number, operation);
        let executed = DataEvent::Executed {
            node,
            incarnation,
            number,
        };
        let completed = DataEvent::Completed {
            node,
            incarnation,
            number,
        };
        if is_early {
            self.schedule.plan_own(now_ns + takes_ns, 2, completed);
            let late_ns = now_ns + takes_ns + EARLY_NS;
            return self.schedule.plan_own(late_ns, 2, executed);
        }
        self.schedule.plan_own(now_ns + takes_ns, 2, executed);
    }

    /// Let an operation take effect.
    pub(super) fn execute_operation(&mut self, node: u8, number: u64) {
        let now_ns = self.now_ns();
        let mut draw = self.draw(Domain::Disk, node);
        let later_ns = draw.exponential(self.scenario.options.disk.append_mean_ns / 8);
        let state = &mut self.nodes[usize::from(node)];
        let process = state.process.as_mut().expect("a running process");
        let incarnation = process.incarnation;
        let Some(mut operation) = process.operations.remove(&number) else {
            return;
        };
        let is_sync = matches!(
            operation.request.operation,
            StorageOperation::Sync { .. } | StorageOperation::Uncache { .. }
        );
        let storage = &mut state.storage;
        let mut conditions = Conditions {
            is_full: state.full_until_ns > now_ns,
            ..Conditions::default()
        };
        let restart_after_ns = if is_sync {
            state.sync_error.take()
        } else {
            None
        };
        conditions.sync_fails = restart_after_ns.is_some();
        if storage.errors > 0 && !is_sync {
            storage.errors -= 1;
            conditions.fails = true;
            self.tally.add("operations that failed");
        }
        let pool = process.memory.pool().clone();
        let outcome = storage.execute(
            operation.namespace,
            &operation.request.operation,
            (conditions, &pool),
            &mut draw,
        );
        let is_reported = operation.outcome.is_some();
        if let Err(error) = &outcome {
            let partitions = &mut self.group.partitions;
            let mut failed = partitions
                .iter_mut()
                .filter(|it| it.namespace == operation.namespace);
            let stored = failed.by_ref().flat_map(|partition| &mut partition.stored);
            stored.for_each(StoredOffset::failed);
            let (kind, number) = (error.kind, [number]);
            self.trace.event(now_ns, node, "failed", &number);
            self.trace.explain(now_ns, node, || {
                format!("operation {number:?} fails: {kind}")
            });
        }
        if !is_reported {
            operation.outcome = Some(outcome);
            process.operations.insert(number, operation);
            let completed = DataEvent::Completed {
                node,
                incarnation,
                number,
            };
            self.schedule.plan_own(now_ns + later_ns, 2, completed);
        }
        if let Some(after_ns) = restart_after_ns {
            self.tally.add("syncs that failed");
            self.group.has_sync_failed = true;
            self.group.calm_ns = u64::MAX;
            self.plan_restart(node, after_ns);
        }
    }

    /// Let an operator restart the process after some time.
    pub(super) fn plan_restart(&mut self, node: u8, after_ns: u64) {
        let Some(process) = &self.nodes[usize::from(node)].process else {
            return;
        };
        let incarnation = process.incarnation;
        let restarted = DataEvent::Restarted { node, incarnation };
        self.schedule
            .plan_own(self.now_ns() + after_ns, 1, restarted);
    }

    /// Give the process the result of an operation.
    pub(super) fn complete_operation(&mut self, node: u8, number: u64) {
        let now_ns = self.now_ns();
        let process = self.nodes[usize::from(node)].process.as_mut();
        let process = process.expect("a running process");
        let Some(operation) = process.operations.get_mut(&number) else {
            return;
        };
        let outcome = operation.outcome.take().expect("it has taken effect");
        let (shard, namespace) = (operation.shard, operation.namespace);
        let id = operation.request.id;
        let is_early = is_early(self.kind.bug, &operation.request.operation);
        if is_early {
            // It takes effect later.
            operation.outcome = Some(Ok(StorageOutcome::Done));
        } else {
            process.operations.remove(&number);
        }
        process.inputs[shard].push_back(Input::Storage {
            namespace,
            completion: StorageCompletion {
                id,
                result: outcome,
            },
        });
        self.trace.event(now_ns, node, "completed", &[number]);
        self.plan_turn(node);
    }
}

/// Return whether a bug reports an operation before it takes effect.
pub(super) const fn is_early(bug: Option<Mutant>, operation: &StorageOperation) -> bool {
    matches!(
        (bug, operation),
        (Some(Mutant::DataWriteEarly), StorageOperation::Write { .. })
            | (Some(Mutant::DataSyncEarly), StorageOperation::Sync { .. })
    )
}
