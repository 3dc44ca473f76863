//! Responses in the order of their requests.
//!
//! The protocol has no request ids: the n-th response answers the n-th request. Batches to append may be in flight
//! together. Every other request runs alone, so that it sees the effects of all earlier ones.

mod room;

use std::{collections::VecDeque, num::NonZeroU32, sync::Arc};

use headrace_buffer::Slice;
use headrace_catalog::Rate;
use headrace_link::TraceContext;
use headrace_model::Timestamp;
use headrace_partition::Poll;
use headrace_wire::{CommandCode, Status};

use super::{responses::nothing_polled, websocket};
use crate::{
    calls::{PartitionCall, Sequence},
    memory::Claim,
    meter::{CommandSlot, Meter},
    tracer::{Key, RequestTrace, TraceRecord},
};

/// Maximum number of requests in flight on one connection.
const IN_FLIGHT_MAX: usize = 256;
/// Maximum bytes of batches in flight on one connection.
const IN_FLIGHT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Unsent bytes above which no further request of a slow reader starts.
const OUTGOING_BYTES_MAX: u64 = 1024 * 1024;
/// Memory overhead of a slice.
const BETWEEN_OVERHEAD_BYTES: u64 = 256;
/// Statuses that are never sent on a WebSocket: the connection ends instead. Source: the reference server.
const ENDING_STATUSES: [Status; 3] = [
    Status::DISCONNECTED,
    Status::TCP_ERROR,
    Status::CONNECTION_CLOSED,
];

#[derive(Debug)]
enum Slot {
    Waiting {
        bytes: u64,
        /// Start time in microseconds since the Unix epoch.
        began: u64,
        command: CommandSlot,
    },
    Ready(Vec<Slice>),
    ReadyOne(Slice),
    /// Bytes that are not a response and are sent unchanged.
    Raw(Slice),
}

impl Slot {
    /// Size of a response in bytes.
    fn bytes(&self) -> u64 {
        match self {
            Self::Waiting { .. } => 0,
            Self::Ready(slices) => slices.iter().map(|slice| slice.len() as u64).sum(),
            Self::ReadyOne(slice) | Self::Raw(slice) => slice.len() as u64,
        }
    }

    /// Memory in bytes that a response keeps: whole buffers, however little of them it is.
    fn held_bytes(&self) -> u64 {
        match self {
            Self::Waiting { .. } => 0,
            Self::Ready(slices) => slices
                .iter()
                .map(|slice| slice.capacity_bytes() as u64)
                .sum(),
            Self::ReadyOne(slice) | Self::Raw(slice) => slice.capacity_bytes() as u64,
        }
    }
}

/// Requests in flight, and responses that wait to be sent.
#[derive(Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts: how responses are written, and marks"
)]
pub(crate) struct Pipeline {
    slots: VecDeque<Slot>,
    first: u64,
    waiting: usize,
    in_flight_bytes: u64,
    exclusive: bool,
    outgoing: Vec<Slice>,
    outgoing_bytes: u64,
    /// True if each response is sent as a WebSocket message.
    in_messages: bool,
    /// True if the connection ends in place of a response that must not be sent.
    ended: bool,
    /// Meter that counts the answers.
    meter: Option<Arc<Meter>>,
    /// Command of the next request.
    command: CommandSlot,
    /// Trace of the next request.
    context: Option<TraceContext>,
    /// True if refusals carry an explanation.
    explains: bool,
    /// True if answers to batches carry partition and offset.
    reports_offsets: bool,
    /// Traced requests in flight.
    traced: Vec<(Sequence, NonZeroU32, TraceContext)>,
    /// Parts of the user's memory share that large requests in flight hold.
    claims: Vec<(Sequence, Claim)>,
    /// Part of the user's share for the answer to the next request, or to the one in flight.
    answer_claim: Option<Claim>,
    /// Part of the user's share that answers hold until they are sent.
    unsent_claim: Option<Claim>,
    /// Poll in flight, which is repeated if its first message needs a larger part of the share.
    poll: Option<PartitionCall<Poll>>,
    /// Rates to which the answer to the request in flight is charged.
    rates: [Option<Arc<Rate>>; 2],
}

impl Pipeline {
    /// Create a pipeline whose responses are WebSocket messages, one each.
    pub(crate) fn in_messages() -> Self {
        Self {
            in_messages: true,
            ..Self::default()
        }
    }

    /// Count answers in `meter`, which is that of the connection's current shard.
    pub(crate) fn measure(&mut self, meter: &Arc<Meter>) {
        self.meter = Some(Arc::clone(meter));
    }

    /// Set the command code of the next request.
    pub(crate) fn announce(&mut self, code: u32) {
        self.command = CommandSlot::of(code);
    }

    /// Set the trace of the next request.
    pub(crate) fn trace(&mut self, context: Option<TraceContext>) {
        self.context = context;
    }

    /// Return whether the trace of the next request is already set.
    pub(crate) fn is_traced(&self) -> bool {
        self.context.is_some()
    }

    /// Return the trace number of the request that began last.
    pub(crate) fn traced_last(&self) -> Option<NonZeroU32> {
        let (sequence, request, _) = self.traced.last()?;
        (sequence.0 + 1 == self.first + self.slots.len() as u64).then_some(*request)
    }

    /// Return the trace of the request that began last.
    pub(crate) fn context_last(&self) -> Option<TraceContext> {
        self.traced_last()?;
        self.traced.last().map(|(_, _, context)| *context)
    }

    /// Add explanations to refusals from now on.
    pub(crate) fn explain(&mut self) {
        self.explains = true;
    }

    /// Return whether refusals carry an explanation.
    pub(crate) fn explains(&self) -> bool {
        self.explains
    }

    /// Add partition and offset to answers to batches from now on.
    pub(crate) fn report_offsets(&mut self) {
        self.reports_offsets = true;
    }

    /// Return whether answers to batches carry partition and offset.
    pub(crate) fn reports_offsets(&self) -> bool {
        self.reports_offsets
    }

    /// Return whether the answer to a request in flight begins with the gap of messages removed before they could be
    /// read.
    pub(crate) fn names_gaps(&self, sequence: Sequence) -> bool {
        let index = sequence.0.checked_sub(self.first);
        let slot = index.and_then(|index| self.slots.get(usize::try_from(index).ok()?));
        matches!(slot, Some(Slot::Waiting { command, .. }) if *command == CommandSlot::of(CommandCode::ReadMessages.code()))
    }

    /// Return whether a request that may overlap with batches in flight can start.
    pub(crate) fn may_append(&self) -> bool {
        !self.exclusive
            && self.slots.len() < IN_FLIGHT_MAX
            && self.in_flight_bytes < IN_FLIGHT_BYTES_MAX
            && self.outgoing_bytes < OUTGOING_BYTES_MAX
    }

    /// Return whether a request that must run alone can start.
    pub(crate) fn may_run_alone(&self) -> bool {
        self.waiting == 0 && self.may_append()
    }

    /// Return whether no request waits for its response.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// Begin a batch of `bytes` bytes.
    pub(crate) fn begin_append(&mut self, bytes: usize) -> Sequence {
        self.begin(bytes as u64)
    }

    /// Begin a request that runs alone.
    pub(crate) fn begin_alone(&mut self) -> Sequence {
        self.exclusive = true;
        self.begin(0)
    }

    fn begin(&mut self, bytes: u64) -> Sequence {
        let sequence = Sequence(self.first + self.slots.len() as u64);
        let meter = self.meter.as_deref();
        self.slots.push_back(Slot::Waiting {
            bytes,
            began: meter.map_or(0, Meter::now),
            command: self.command,
        });
        if let Some(context) = self.context.take()
            && let Some(meter) = meter
        {
            self.traced.push((sequence, meter.tracer.next(), context));
        }
        self.waiting += 1;
        self.in_flight_bytes += bytes;
        sequence
    }

    /// Keep the memory claim of the request that began last until it is answered.
    pub(crate) fn hold(&mut self, claim: Claim) {
        if let Some(Slot::Waiting { .. }) = self.slots.back() {
            let sequence = Sequence(self.first + self.slots.len() as u64 - 1);
            self.claims.push((sequence, claim));
        }
    }

    /// Set the response to a request in flight. A request that is already answered stays unchanged.
    pub(crate) fn answer(&mut self, sequence: Sequence, response: Vec<Slice>) {
        self.fill(sequence, Slot::Ready(response));
    }

    /// Set a response in one slice; see [`Self::answer`].
    pub(crate) fn answer_one(&mut self, sequence: Sequence, response: Slice) {
        self.fill(sequence, Slot::ReadyOne(response));
    }

    fn fill(&mut self, sequence: Sequence, ready: Slot) {
        let Some(index) = sequence.0.checked_sub(self.first) else {
            return;
        };
        let Some(slot) = usize::try_from(index)
            .ok()
            .and_then(|index| self.slots.get_mut(index))
        else {
            return;
        };
        if let Slot::Waiting {
            bytes,
            began,
            command,
        } = *slot
        {
            self.in_flight_bytes -= bytes;
            self.waiting -= 1;
            self.exclusive = false;
            if !self.claims.is_empty() {
                self.claims.retain(|(holder, _)| *holder != sequence);
            }
            if self.rates.iter().any(Option::is_some) {
                let now = Timestamp(self.meter.as_deref().map_or(0, Meter::now));
                for rate in self.rates.iter_mut().filter_map(Option::take) {
                    rate.charge(now, ready.bytes());
                }
            }
            if let Some(claim) = self.answer_claim.take() {
                room::keep_until_sent(&mut self.unsent_claim, claim, ready.held_bytes());
            }
            if let Some(meter) = &self.meter
                && let Some(status) = status_of(&ready)
            {
                meter.answered(command, began, status);
                if !self.traced.is_empty() {
                    leave_trace(
                        &mut self.traced,
                        meter,
                        sequence,
                        bytes,
                        began,
                        command,
                        status,
                    );
                }
            }
            *slot = ready;
        }
        while self
            .slots
            .front()
            .is_some_and(|slot| !matches!(slot, Slot::Waiting { .. }))
        {
            self.first += 1;
            if let Some(slot) = self.slots.pop_front() {
                self.release(slot);
            }
        }
    }

    /// Charge the answer to the next request to these rates.
    #[inline]
    pub(crate) fn charge_answer(&mut self, rates: [Option<Arc<Rate>>; 2]) {
        self.rates = rates;
    }

    /// Queue the content of a slot for sending.
    fn release(&mut self, slot: Slot) {
        if self.ended {
            return;
        }
        match slot {
            Slot::Waiting { .. } => {}
            Slot::Raw(words) => self.push_outgoing(words),
            Slot::ReadyOne(slice) => {
                if !self.in_messages || self.begin_message(&slice, slice.len()) {
                    self.push_outgoing(slice);
                }
            }
            Slot::Ready(slices) => {
                if self.in_messages {
                    let bytes = slices.iter().map(Slice::len).sum();
                    if !self.begin_message(slices.first().map_or(&[], |slice| &**slice), bytes) {
                        return;
                    }
                }
                for slice in slices {
                    self.push_outgoing(slice);
                }
            }
        }
    }

    /// Write the header of the message that contains a response. Returns false if its status ends the connection
    /// instead.
    fn begin_message(&mut self, front: &[u8], bytes: usize) -> bool {
        let status = front
            .first_chunk()
            .map(|status| u32::from_le_bytes(*status));
        self.ended =
            status.is_some_and(|status| ENDING_STATUSES.iter().any(|ending| ending.0 == status));
        if !self.ended {
            self.push_outgoing(websocket::message_header(bytes));
        }
        !self.ended
    }

    /// Return whether the connection ends in place of a response.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Queue final bytes behind the answers to everything in flight.
    pub(crate) fn queue_final(&mut self, words: Slice) {
        let sequence = self.begin(0);
        self.fill(sequence, Slot::Raw(words));
    }

    /// Abandon requests in flight, and send the final bytes queued behind them.
    pub(crate) fn abandon(&mut self) {
        let slots = core::mem::take(&mut self.slots);
        self.first += slots.len() as u64;
        self.waiting = 0;
        self.in_flight_bytes = 0;
        self.claims.clear();
        self.answer_claim = None;
        self.rates = Default::default();
        self.exclusive = false;
        for slot in slots {
            self.release(slot);
        }
    }

    /// Queue bytes that belong to no request between two responses.
    pub(crate) fn queue_between_responses(&mut self, words: Slice) {
        // Each slice has a memory overhead, however short it is.
        self.outgoing_bytes += BETWEEN_OVERHEAD_BYTES;
        self.push_outgoing(words);
    }

    /// Queue bytes that belong to no request, without a limit.
    pub(crate) fn queue(&mut self, words: Slice) {
        self.push_outgoing(words);
    }

    /// Number of bytes not yet handed to the host for sending.
    pub(crate) fn outgoing_bytes(&self) -> u64 {
        self.outgoing_bytes
    }

    /// Return whether so much waits for a slow reader that receiving must pause. Without WebSocket messages the peer
    /// sends only requests, which wait for their turn anyway.
    pub(crate) fn is_full(&self) -> bool {
        self.in_messages && self.outgoing_bytes >= OUTGOING_BYTES_MAX
    }

    /// Count messages appended or returned by the request that is answered next.
    pub(crate) fn count(&self, count: impl FnOnce(&Meter)) {
        if let Some(meter) = &self.meter {
            count(meter);
        }
    }

    /// Answer a request immediately.
    pub(crate) fn respond(&mut self, response: Slice) {
        let sequence = self.begin(0);
        self.answer_one(sequence, response);
    }

    /// Answer a poll immediately, without messages.
    pub(crate) fn respond_nothing(&mut self) {
        let sequence = self.begin(0);
        let response = nothing_polled(self.names_gaps(sequence));
        self.answer_one(sequence, response);
    }

    fn push_outgoing(&mut self, slice: Slice) {
        if !slice.is_empty() {
            self.outgoing_bytes += slice.len() as u64;
            self.outgoing.push(slice);
        }
    }

    /// Take what is ready to be sent, up to this many bytes. Returns their number.
    pub(crate) fn take_outgoing(&mut self, bytes_max: u64) -> (Vec<Slice>, u64) {
        let (mut count, mut bytes) = (0, 0);
        while bytes < bytes_max
            && let Some(slice) = self.outgoing.get(count)
        {
            bytes += slice.len() as u64;
            count += 1;
        }
        let rest = self.outgoing.split_off(count);
        let mut taken = core::mem::replace(&mut self.outgoing, rest);
        let beyond = usize::try_from(bytes.saturating_sub(bytes_max)).expect("part of a slice");
        if beyond > 0
            && let Some(last) = taken.last_mut()
        {
            let end = last.len() - beyond;
            self.outgoing.insert(0, last.slice(end..));
            *last = last.slice(..end);
            bytes = bytes_max;
        }
        if let Some(meter) = &self.meter {
            meter.sent(bytes);
        }
        // Bytes between responses count for more than they are.
        self.outgoing_bytes = if self.outgoing.is_empty() {
            0
        } else {
            self.outgoing_bytes.saturating_sub(bytes)
        };
        (taken, bytes)
    }

    /// Return whether something is ready to be sent.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }
}

/// Return the status of a response; `None` for bytes that are not a response.
fn status_of(slot: &Slot) -> Option<u32> {
    let front: &[u8] = match slot {
        Slot::ReadyOne(slice) => slice,
        Slot::Ready(slices) => slices.first()?,
        Slot::Waiting { .. } | Slot::Raw(_) => return None,
    };
    front
        .first_chunk()
        .map(|status| u32::from_le_bytes(*status))
}

/// Record the trace of an answered request if it is traced.
#[cold]
fn leave_trace(
    traced: &mut Vec<(Sequence, NonZeroU32, TraceContext)>,
    meter: &Meter,
    sequence: Sequence,
    bytes: u64,
    began: u64,
    command: CommandSlot,
    status: u32,
) {
    let Some(index) = traced.iter().position(|(place, ..)| *place == sequence) else {
        return;
    };
    let (_, request, context) = traced.remove(index);
    meter.tracer.record(TraceRecord::Request(RequestTrace {
        key: Key {
            shard: meter.shard(),
            request,
        },
        context,
        command: CommandCode::try_from(command.code()).ok(),
        began,
        ended: meter.now(),
        status,
        bytes,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pipeline: &mut Pipeline) -> String {
        let (taken, _) = pipeline.take_outgoing(u64::MAX);
        taken
            .iter()
            .map(|slice| String::from_utf8_lossy(slice).into_owned())
            .collect()
    }

    #[test]
    fn responses_leave_in_the_order_of_the_requests() {
        let mut pipeline = Pipeline::default();
        let first = pipeline.begin_append(10);
        let second = pipeline.begin_append(10);
        pipeline.respond(Slice::from_vec(b"3".to_vec()));
        pipeline.answer_one(second, Slice::from_vec(b"2".to_vec()));
        assert!(!pipeline.has_outgoing());
        pipeline.answer(
            first,
            vec![
                Slice::from_vec(b"1".to_vec()),
                Slice::from_vec(b"a".to_vec()),
            ],
        );
        assert_eq!(text(&mut pipeline), "1a23");
        assert!(pipeline.is_idle());
    }

    #[test]
    fn a_request_that_runs_alone_waits_and_holds_back() {
        let mut pipeline = Pipeline::default();
        let batch = pipeline.begin_append(10);
        assert!(pipeline.may_append());
        assert!(!pipeline.may_run_alone());
        pipeline.answer_one(batch, Slice::from_vec(b"ok".to_vec()));
        assert!(pipeline.may_run_alone());
        let poll = pipeline.begin_alone();
        assert!(!pipeline.may_append());
        pipeline.answer_one(poll, Slice::from_vec(b"ok".to_vec()));
        assert!(pipeline.may_append());
    }

    #[test]
    fn bytes_in_flight_are_bounded() {
        let mut pipeline = Pipeline::default();
        let batch = pipeline.begin_append(usize::try_from(IN_FLIGHT_BYTES_MAX).expect("fits"));
        assert!(!pipeline.may_append());
        pipeline.answer_one(batch, Slice::from_vec(b"ok".to_vec()));
        assert!(pipeline.may_append());
    }

    #[test]
    fn a_second_answer_to_the_same_request_is_ignored() {
        let mut pipeline = Pipeline::default();
        let only = pipeline.begin_append(1);
        pipeline.answer_one(only, Slice::from_vec(b"x".to_vec()));
        pipeline.answer_one(only, Slice::from_vec(b"y".to_vec()));
        assert_eq!(text(&mut pipeline), "x");
    }
}
