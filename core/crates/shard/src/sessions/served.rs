//! Links: connections over which gateways send requests for partitions of this shard.
//!
//! A shard of a gateway is served as another shard of this process would be, by the same partitions. Its requests enter
//! as those of one connection whose call numbers the gateway chooses, and answers leave in the order in which they
//! arise. The gateway's frames name the partition known to its own catalog: [`places`] checks that this is the
//! partition hosted here.

mod answers;
mod opening;
pub(crate) mod places;

use std::num::NonZeroU32;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use headrace_buffer::Slice;
use headrace_link::{RequestId, ToGateway, ToNode, TraceContext, WhenReady};
use headrace_model::{Namespace, NodeId, ShardId, Timestamp};

use crate::{meter::CommandSlot, sessions::connection::Pipeline};

/// Maximum number of requests in flight on one link; waiting polls are counted separately.
const IN_FLIGHT_MAX: usize = 4096;
/// Maximum bytes of batches in flight on one link.
const IN_FLIGHT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of unsent answers above which nothing more is read from a slow gateway.
const OUTGOING_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Maximum size of frames that are combined into one slice for sending.
const SMALL_FRAME_BYTES_MAX: usize = 512;

/// Parameters of an accepted link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) shard: ShardId,
    pub(crate) node: NodeId,
    pub(crate) catalog_version: u64,
}

/// An unanswered call of a gateway.
pub(crate) struct PendingCall {
    pub(crate) namespace: Namespace,
    /// Set for a waiting poll.
    pub(crate) when_ready: Option<WhenReady>,
    /// Size of a batch; 0 for other calls.
    pub(crate) bytes: u64,
    /// Start time in microseconds since the Unix epoch.
    pub(crate) began: u64,
    pub(crate) command: CommandSlot,
    pub(crate) trace: Option<(NonZeroU32, TraceContext)>,
}

/// A frame that requires a newer catalog than the local one.
pub(crate) struct Held {
    pub(crate) frame: ToNode,
    /// Required catalog version.
    pub(crate) version: u64,
    /// Deadline for the catalog; after it the link is closed.
    pub(crate) until: Timestamp,
}

/// Calls that were refused because their partition is not here.
pub(crate) struct Refused {
    /// Version of the catalog that assigns the partition elsewhere.
    pub(crate) version: u64,
    pub(crate) calls: HashSet<RequestId, FixedState>,
}

/// State of a link.
pub(crate) struct GatewayLink {
    /// Requested parameters, set until the link is on the requested shard.
    pub(crate) opening: Option<Opening>,
    /// Catalog version that the gateway relies on.
    pub(crate) announced: u64,
    pub(crate) calls: HashMap<RequestId, PendingCall, FixedState>,
    pub(crate) in_flight_bytes: u64,
    pub(crate) waiting_count: usize,
    pub(crate) watched: HashSet<Namespace, FixedState>,
    /// Refused calls of partitions that are not here. The gateway repeats them after it has received the refusals, the
    /// earliest call first. Other calls for these partitions that arrive before have overtaken them.
    pub(crate) not_here: HashMap<Namespace, Refused, FixedState>,
    pub(crate) held: Option<Box<Held>>,
    /// Bytes to be skipped after the beginning of a batch that never fits into memory; 0 if there is none.
    pub(crate) oversized_bytes: usize,
    /// Small frames that are ready to be sent.
    pub(crate) queued_frames: Vec<u8>,
    /// True after a protocol violation by the gateway.
    pub(crate) is_broken: bool,
    /// True after the gateway was notified that no further frames follow.
    pub(crate) has_parted: bool,
}

impl GatewayLink {
    pub(crate) fn new(opening: Opening) -> Self {
        Self {
            announced: opening.catalog_version,
            opening: Some(opening),
            calls: HashMap::default(),
            in_flight_bytes: 0,
            waiting_count: 0,
            watched: HashSet::default(),
            not_here: HashMap::default(),
            held: None,
            oversized_bytes: 0,
            queued_frames: Vec::new(),
            is_broken: false,
            has_parted: false,
        }
    }

    /// Return whether receiving is paused.
    pub(crate) fn is_paused(&self, pipeline: &Pipeline) -> bool {
        self.opening.is_some() || self.is_broken || self.held.is_some() || !self.has_room(pipeline)
    }

    pub(crate) fn has_room(&self, pipeline: &Pipeline) -> bool {
        self.calls.len() - self.waiting_count < IN_FLIGHT_MAX
            && self.in_flight_bytes < IN_FLIGHT_BYTES_MAX
            && pipeline.outgoing_bytes() + (self.queued_frames.len() as u64) < OUTGOING_BYTES_MAX
    }

    /// Return whether calls are unanswered.
    pub(crate) fn owes_answers(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Return the shard that the link is to move to, until it is there.
    pub(crate) fn wanted_shard(&self) -> Option<ShardId> {
        self.opening.map(|opening| opening.shard)
    }

    /// Return whether the gateway has violated the protocol.
    pub(crate) fn has_violated_protocol(&self) -> bool {
        self.is_broken
    }

    /// Return whether the catalog that a held frame requires is overdue.
    pub(crate) fn is_late(&self, now: Timestamp) -> bool {
        self.held.as_ref().is_some_and(|held| held.until <= now)
    }

    /// Return whether the final frame was queued.
    pub(crate) fn is_drained(&self) -> bool {
        self.has_parted
    }

    pub(crate) fn begin(&mut self, call: RequestId, asked: PendingCall) {
        self.in_flight_bytes += asked.bytes;
        self.waiting_count += usize::from(asked.when_ready.is_some());
        self.calls.insert(call, asked);
    }

    pub(crate) fn end(&mut self, call: RequestId) -> Option<PendingCall> {
        let asked = self.calls.remove(&call)?;
        self.in_flight_bytes -= asked.bytes;
        self.waiting_count -= usize::from(asked.when_ready.is_some());
        Some(asked)
    }

    pub(crate) fn queue(&mut self, frame: ToGateway, pipeline: &mut Pipeline) {
        let slices = frame.encode();
        if let [small] = &slices[..]
            && small.len() <= SMALL_FRAME_BYTES_MAX
        {
            self.queued_frames.extend_from_slice(small);
            return;
        }
        self.flush_frames(pipeline);
        for slice in slices {
            pipeline.queue(slice);
        }
    }

    /// Pass collected small frames to the pipeline for sending.
    pub(crate) fn flush_frames(&mut self, pipeline: &mut Pipeline) {
        if !self.queued_frames.is_empty() {
            pipeline.queue(Slice::from_vec(core::mem::take(&mut self.queued_frames)));
        }
    }
}
