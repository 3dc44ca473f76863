//! Links: connections over which gateways ask for partitions of this shard.
//!
//! A shard of a gateway asks as another shard of this process would, and is answered by the same partitions. Its requests
//! go in as the requests of one connection whose numbers the gateway chooses, and the answers go out in the order in which
//! they come. What it says of a partition names the one that its own catalogue knows: [`places`] tells whether that is
//! the one that is here.

mod answers;
mod frames;
mod opening;
mod places;

use std::num::NonZeroU32;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use headrace_buffer::Slice;
use headrace_link::{Call, ToGateway, ToNode, TraceContext, WhenReady};
use headrace_model::{Namespace, ShardId, Timestamp};

use crate::{connection::Pipeline, meter::Place as Command};

pub(crate) use opening::Opening;

/// Requests of one link that may be under way; polls that wait are counted apart.
const IN_FLIGHT_MAX: usize = 4096;
/// Bytes of batches that one link may have under way.
const IN_FLIGHT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes that may wait for a gateway that reads slowly before it is heard again.
const OUTGOING_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Frames up to this size leave together, in one piece.
const SMALL_FRAME_BYTES_MAX: usize = 512;

/// What a gateway has asked for and was not answered.
struct Asked {
    namespace: Namespace,
    /// Set when it waits.
    when_ready: Option<WhenReady>,
    /// Of a batch.
    bytes: u64,
    /// Microseconds since the Unix epoch.
    began: u64,
    command: Command,
    trace: Option<(NonZeroU32, TraceContext)>,
}

/// A frame that relies on a newer catalogue than the one that is here.
struct Held {
    frame: ToNode,
    /// The one that is.
    version: u64,
    /// Who has not caught up by then parts with the gateway.
    until: Timestamp,
}

/// Calls that were refused because their partition is not here.
struct Refused {
    /// The version of the catalogue that says so.
    version: u64,
    calls: HashSet<Call, FixedState>,
}

/// The state of a link.
pub(crate) struct Served {
    /// Set until the link is where it belongs.
    opening: Option<Opening>,
    /// The version of the catalogue that the gateway relies on.
    announced: u64,
    calls: HashMap<Call, Asked, FixedState>,
    in_flight_bytes: u64,
    waiting_count: usize,
    watched: HashSet<Namespace, FixedState>,
    /// What was refused because its partition is not here. The gateway asks again when it has heard that, with the first
    /// of them first; what else it asks of these partitions until then has overtaken them.
    not_here: HashMap<Namespace, Refused, FixedState>,
    held: Option<Box<Held>>,
    /// Small frames on their way out.
    said: Vec<u8>,
    /// It has said what no gateway says.
    is_broken: bool,
    /// It was told that nothing more will be said.
    has_parted: bool,
}

impl Served {
    fn new(opening: Opening) -> Self {
        Self {
            announced: opening.catalog_version,
            opening: Some(opening),
            calls: HashMap::default(),
            in_flight_bytes: 0,
            waiting_count: 0,
            watched: HashSet::default(),
            not_here: HashMap::default(),
            held: None,
            said: Vec::new(),
            is_broken: false,
            has_parted: false,
        }
    }

    /// Whether nothing more is to be heard for now.
    pub(crate) fn is_deaf(&self, pipeline: &Pipeline) -> bool {
        self.opening.is_some() || self.is_broken || self.held.is_some() || !self.has_room(pipeline)
    }

    fn has_room(&self, pipeline: &Pipeline) -> bool {
        self.calls.len() - self.waiting_count < IN_FLIGHT_MAX
            && self.in_flight_bytes < IN_FLIGHT_BYTES_MAX
            && pipeline.outgoing_bytes() + (self.said.len() as u64) < OUTGOING_BYTES_MAX
    }

    /// Whether something that was begun is to be answered.
    pub(crate) fn owes_answers(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Where it is to be, as long as it is not there.
    pub(crate) fn wanted_shard(&self) -> Option<ShardId> {
        self.opening.map(|opening| opening.shard)
    }

    /// Whether it has said what no gateway says.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether a frame has waited for a newer catalogue for too long.
    pub(crate) fn is_late(&self, now: Timestamp) -> bool {
        self.held.as_ref().is_some_and(|held| held.until <= now)
    }

    /// Whether there is nothing left to say.
    pub(crate) fn has_parted(&self) -> bool {
        self.has_parted
    }

    fn begin(&mut self, call: Call, asked: Asked) {
        self.in_flight_bytes += asked.bytes;
        self.waiting_count += usize::from(asked.when_ready.is_some());
        self.calls.insert(call, asked);
    }

    fn end(&mut self, call: Call) -> Option<Asked> {
        let asked = self.calls.remove(&call)?;
        self.in_flight_bytes -= asked.bytes;
        self.waiting_count -= usize::from(asked.when_ready.is_some());
        Some(asked)
    }

    fn say(&mut self, frame: ToGateway, pipeline: &mut Pipeline) {
        let slices = frame.encode();
        if let [small] = &slices[..]
            && small.len() <= SMALL_FRAME_BYTES_MAX
        {
            self.said.extend_from_slice(small);
            return;
        }
        self.speak_out(pipeline);
        for slice in slices {
            pipeline.say(slice);
        }
    }

    /// What was said is on its way out.
    pub(crate) fn speak_out(&mut self, pipeline: &mut Pipeline) {
        if !self.said.is_empty() {
            pipeline.say(Slice::from_vec(core::mem::take(&mut self.said)));
        }
    }
}
