//! Execution of calls by partitions: every call starts here, whichever way it came.

use headrace_model::{Namespace, ShardId, Timestamp};
use headrace_partition::{Outbox, Partition, Request, RequestId};

use super::{
    HostingState,
    tickets::{Origins, RequestPurpose},
    traces::Traces,
};
use crate::api::PartitionCall;

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
