//! Execution of calls by partitions: every call starts here, whichever way it came.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use headrace_log::Failure;
use headrace_model::{Namespace, PartitionStatistics, ShardId, Timestamp};
use headrace_partition::{Outbox, Partition, Request, RequestId};

use super::{
    HostingState,
    origins::{Origins, RequestPurpose},
    state::{Broken, Next},
    traces::Traces,
};
use crate::calls::PartitionCall;

/// Execution of the partitions' steps.
pub(super) struct Steps {
    /// Requests and answers of the partition that was called last.
    pub(super) outbox: Outbox,
    /// Calls that their partitions have not answered.
    pub(super) origins: Origins,
    pub(super) traces: Traces,
    /// Broken partitions whose requests are not refused yet.
    pub(super) broken: Vec<Namespace>,
}

/// Record of a call that starts.
#[derive(Clone, Copy)]
pub(super) struct Started {
    pub(super) namespace: Namespace,
    pub(super) purpose: RequestPurpose,
    pub(super) is_append: bool,
}

impl Steps {
    /// Create the execution of the partitions of a shard.
    pub(super) fn new(shard: ShardId) -> Self {
        Self {
            outbox: Outbox::default(),
            origins: Origins::default(),
            traces: Traces::new(shard),
            broken: Vec::new(),
        }
    }

    /// Start a call that owns its bytes.
    #[inline]
    pub(super) fn start(&mut self, state: &mut HostingState, call: PartitionCall, now: Timestamp) {
        let PartitionCall {
            origin,
            namespace,
            request,
        } = call;
        let started = Started {
            namespace,
            purpose: RequestPurpose::Request(origin),
            is_append: matches!(request, Request::Append { .. }),
        };
        self.start_with(state, started, now, |partition, id, outbox| {
            partition.submit(now, id, request, outbox);
        });
    }

    /// Start a call with a step of its partition, which answers under the request id.
    #[inline]
    pub(super) fn start_with(
        &mut self,
        state: &mut HostingState,
        started: Started,
        now: Timestamp,
        step: impl FnOnce(&mut Partition, RequestId, &mut Outbox),
    ) {
        let Started {
            namespace,
            purpose,
            is_append,
        } = started;
        let id = self.origins.insert(namespace, purpose);
        self.take(state, |partition, outbox| step(partition, id, outbox));
        if let Some(key) = purpose.trace_key()
            && let Some(partition) = state.partition()
        {
            self.traces.begin(key, id, partition, is_append, now);
        }
    }

    /// Record in the open traces how far a partition's batches have progressed.
    #[inline]
    pub(super) fn trace_progress(
        &mut self,
        namespace: Namespace,
        state: &HostingState,
        turn_ends: bool,
        now: Timestamp,
    ) {
        if !self.traces.is_empty()
            && let Some(partition) = state.partition()
        {
            (self.traces).record_progress(namespace, partition, turn_ends, now);
        }
    }
}

impl Steps {
    /// Run a step of a partition. Returns `None` if the partition has no state for it, or after a panic: its state is
    /// then dropped.
    #[inline]
    pub(super) fn take<R>(
        &mut self,
        life: &mut HostingState,
        step: impl FnOnce(&mut Partition, &mut Outbox) -> R,
    ) -> Option<R> {
        let partition = life.partition_mut()?;
        let outbox = &mut self.outbox;
        match catch_unwind(AssertUnwindSafe(|| step(partition, outbox))) {
            Ok(result) => Some(result),
            Err(panic) => {
                self.end(life, &*panic);
                None
            }
        }
    }

    /// Open a partition. After a panic it is out of service.
    pub(super) fn open(
        &mut self,
        namespace: Namespace,
        statistics: &PartitionStatistics,
        open: impl FnOnce(&mut Outbox) -> Partition,
    ) -> HostingState {
        let outbox = &mut self.outbox;
        match catch_unwind(AssertUnwindSafe(|| open(outbox))) {
            Ok(partition) => HostingState::Open(Box::new(partition)),
            Err(panic) => {
                statistics.set_failed(true);
                self.broke(namespace, &*panic, Next::Nothing)
            }
        }
    }

    #[cold]
    fn end(&mut self, life: &mut HostingState, panic: &(dyn Any + Send)) {
        let Some(partition) = life.partition() else {
            return;
        };
        partition.statistics().set_failed(true);
        let next = match life {
            HostingState::Retiring(_) => Next::Removal,
            HostingState::Leaving(_) => Next::Departure,
            _ => Next::Nothing,
        };
        let torn = core::mem::replace(life, self.broke(partition.namespace(), panic, next));
        // Dropping only frees memory. Should it panic as well, the memory leaks.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(torn)));
    }

    fn broke(
        &mut self,
        namespace: Namespace,
        panic: &(dyn Any + Send),
        next: Next,
    ) -> HostingState {
        self.outbox = Outbox::default();
        self.broken.push(namespace);
        let reason = format!(
            "an internal error: {}; a restart recovers what is on disk",
            panic_message(panic)
        );
        HostingState::Broken(Broken {
            failure: Arc::new(Failure {
                namespace,
                readable: false,
                reason,
            }),
            next,
        })
    }

    pub(super) fn have_broken(&self) -> bool {
        !self.broken.is_empty()
    }
}

/// Return the message of a panic; the panic hook has printed the location.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
