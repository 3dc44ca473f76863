//! Keeps responses in the order of their requests.
//!
//! The protocol has no request ids: the n-th response answers the n-th request. Batches to append may be in
//! flight together; every other request runs alone, so that it sees what stood before it.

use std::collections::VecDeque;

use headrace_buffer::Slice;

/// Requests of one connection that may wait for their response at the same time.
const IN_FLIGHT_MAX: usize = 256;
/// Bytes of batches that one connection may have in flight.
const IN_FLIGHT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes that may wait for a slow reader before its next request is looked at.
const OUTGOING_BYTES_MAX: u64 = 1024 * 1024;

/// The place of a request among those of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence(pub u64);

#[derive(Debug)]
enum Slot {
    Waiting { bytes: u64 },
    Ready(Vec<Slice>),
    ReadyOne(Slice),
}

/// Requests in flight and responses on their way out.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    slots: VecDeque<Slot>,
    first: u64,
    waiting: usize,
    in_flight_bytes: u64,
    exclusive: bool,
    outgoing: Vec<Slice>,
    outgoing_bytes: u64,
}

impl Pipeline {
    /// Whether a request that may run beside batches in flight can start.
    pub(crate) fn may_append(&self) -> bool {
        !self.exclusive
            && self.slots.len() < IN_FLIGHT_MAX
            && self.in_flight_bytes < IN_FLIGHT_BYTES_MAX
            && self.outgoing_bytes < OUTGOING_BYTES_MAX
    }

    /// Whether a request that must run alone can start.
    pub(crate) fn may_run_alone(&self) -> bool {
        self.waiting == 0 && self.may_append()
    }

    /// Whether some request waits for its response.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// A batch of `bytes` bytes goes into flight.
    pub(crate) fn begin_append(&mut self, bytes: usize) -> Sequence {
        self.begin(bytes as u64)
    }

    /// A request that runs alone goes into flight.
    pub(crate) fn begin_alone(&mut self) -> Sequence {
        self.exclusive = true;
        self.begin(0)
    }

    fn begin(&mut self, bytes: u64) -> Sequence {
        let sequence = Sequence(self.first + self.slots.len() as u64);
        self.slots.push_back(Slot::Waiting { bytes });
        self.waiting += 1;
        self.in_flight_bytes += bytes;
        sequence
    }

    /// The response to a request in flight. One that was answered before is left alone.
    pub(crate) fn answer(&mut self, sequence: Sequence, response: Vec<Slice>) {
        self.fill(sequence, Slot::Ready(response));
    }

    /// As [`Self::answer`], for a response in one piece.
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
        if let Slot::Waiting { bytes } = *slot {
            self.in_flight_bytes -= bytes;
            self.waiting -= 1;
            self.exclusive = false;
            *slot = ready;
        }
        while let Some(Slot::Ready(_) | Slot::ReadyOne(_)) = self.slots.front() {
            self.first += 1;
            match self.slots.pop_front() {
                Some(Slot::Ready(slices)) => {
                    for slice in slices {
                        self.push_outgoing(slice);
                    }
                }
                Some(Slot::ReadyOne(slice)) => self.push_outgoing(slice),
                Some(Slot::Waiting { .. }) | None => {}
            }
        }
    }

    /// A response that answers at once.
    pub(crate) fn respond(&mut self, response: Slice) {
        let sequence = self.begin(0);
        self.answer_one(sequence, response);
    }

    /// A frame that answers no request, behind everything that is on its way out.
    pub(crate) fn push_outgoing(&mut self, slice: Slice) {
        if !slice.is_empty() {
            self.outgoing_bytes += slice.len() as u64;
            self.outgoing.push(slice);
        }
    }

    /// What is to be sent now.
    pub(crate) fn take_outgoing(&mut self) -> Vec<Slice> {
        self.outgoing_bytes = 0;
        core::mem::take(&mut self.outgoing)
    }

    /// Whether something is to be sent.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pipeline: &mut Pipeline) -> String {
        pipeline
            .take_outgoing()
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
