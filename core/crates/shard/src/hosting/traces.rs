//! Traced requests that their partition has not answered yet.

use headrace_model::{Namespace, Offset, ShardId, Timestamp};
use headrace_partition::{Partition, PartitionError, RequestId, Response};

use crate::tracer::{Key, PartitionTrace, TraceRecord, Tracer};

/// Maximum number of open traces of one shard; further requests are not traced at their partition.
const OPEN_MAX: usize = 1024;

struct Open {
    request_id: RequestId,
    /// Offset behind the last message of a batch; `None` while the partition has yet to open.
    end: Option<Offset>,
    trace: PartitionTrace,
}

/// Open traces of this shard's partitions.
pub(super) struct Traces {
    /// Shard of the partitions.
    owner: ShardId,
    open: Vec<Open>,
}

impl Traces {
    pub(super) fn new(owner: ShardId) -> Self {
        Self {
            owner,
            open: Vec::new(),
        }
    }

    /// Begin the trace of a request that was just submitted to a partition.
    pub(super) fn begin(
        &mut self,
        key: Key,
        request_id: RequestId,
        partition: &Partition,
        is_append: bool,
        now: Timestamp,
    ) {
        if self.open.len() < OPEN_MAX {
            self.open.push(Open {
                request_id,
                end: next_offset(partition),
                trace: PartitionTrace {
                    key,
                    owner: self.owner,
                    namespace: partition.namespace(),
                    is_append,
                    began: now.0,
                    issued: 0,
                    written: 0,
                    synced: 0,
                    ended: 0,
                    is_fulfilled: false,
                    messages_count: 0,
                },
            });
        }
    }

    /// Record how far a partition's batches have progressed.
    pub(super) fn record_progress(
        &mut self,
        namespace: Namespace,
        partition: &Partition,
        turn_ends: bool,
        now: Timestamp,
    ) {
        let (written_end, synced_end) = (partition.written_end(), partition.synced_end());
        let of_partition = |open: &&mut Open| open.trace.namespace == namespace;
        for Open { end, trace, .. } in self.open.iter_mut().filter(of_partition) {
            if !trace.is_append {
                continue;
            }
            if turn_ends && trace.issued == 0 {
                trace.issued = now.0;
            }
            // Batches that waited for the partition to open were appended by now.
            *end = end.or_else(|| next_offset(partition));
            if trace.written == 0 && end.is_some_and(|end| written_end >= end) {
                trace.written = now.0;
            }
            if trace.synced == 0 && end.is_some_and(|end| synced_end >= end) {
                trace.synced = now.0;
            }
        }
    }

    /// End the trace of an answered request.
    pub(super) fn end(
        &mut self,
        request_id: RequestId,
        result: &Result<Response, PartitionError>,
        now: u64,
        tracer: &Tracer,
    ) {
        let Some(index) = self
            .open
            .iter()
            .position(|open| open.request_id == request_id)
        else {
            return;
        };
        let mut trace = self.open.swap_remove(index).trace;
        trace.ended = now;
        trace.is_fulfilled = result.is_ok();
        trace.messages_count = match result {
            Ok(Response::Appended { messages_count, .. }) => *messages_count,
            Ok(Response::Polled(polled)) => polled.messages_count,
            _ => 0,
        };
        tracer.record(TraceRecord::Partition(trace));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Offset behind everything appended, if the partition can append.
fn next_offset(partition: &Partition) -> Option<Offset> {
    partition.is_open().then(|| partition.next_offset())
}
