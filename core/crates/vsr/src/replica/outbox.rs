//! Outputs of a step, and the frames among them.

use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::{DropReason, Notice, Outcome, Output};
use crate::frame::{Area, CommandArea, Frame, Origin};

/// Outputs of the current step. Released to the host only if the whole step succeeds.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Author of the frames. Its view is that of the replica; the rest never changes.
    origin: Origin,
    members: u8,
    outputs: Vec<Output>,
    /// Token given out last; none is given out twice.
    last_token: u64,
}

impl Outbox {
    pub(crate) fn new(origin: Origin, members: u8) -> Self {
        Self {
            origin,
            members,
            outputs: Vec::new(),
            last_token: 0,
        }
    }

    /// Author of the frames that are sealed now.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// Seal frames in another view from now on.
    pub(crate) fn enter_view(&mut self, view: u32) {
        self.origin.view = view;
    }

    pub(crate) fn peers(&self) -> impl Iterator<Item = u8> + use<> {
        let own = self.origin.replica;
        (0..self.members).filter(move |peer| *peer != own)
    }

    /// Token that the next call of [`Self::token`] returns.
    pub(crate) fn next_token(&self) -> u64 {
        self.last_token + 1
    }

    pub(crate) fn token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    pub(crate) fn push(&mut self, output: Output) {
        self.outputs.push(output);
    }

    /// Give the outputs to the host.
    pub(crate) fn release(&mut self, out: &mut Vec<Output>) {
        out.append(&mut self.outputs);
    }

    /// Forget the outputs of a step that has failed.
    pub(crate) fn discard(&mut self) {
        self.outputs.clear();
    }

    /// Create a frame of this replica in its current view.
    pub(crate) fn seal(&self, area: impl CommandArea + Into<Area>, body: Slice) -> Frame {
        Frame::seal(self.origin, area, body).any()
    }

    pub(crate) fn send(&mut self, to: u8, area: impl CommandArea + Into<Area>, body: Slice) {
        let frame = self.seal(area, body);
        self.send_frame(to, frame);
    }

    pub(crate) fn send_frame(&mut self, to: u8, frame: Frame) {
        debug_assert_ne!(to, self.origin.replica, "a replica does not send to itself");
        self.push(Output::Send { to, frame });
    }

    pub(crate) fn broadcast(&mut self, frame: &Frame) {
        for to in self.peers() {
            self.send_frame(to, frame.clone());
        }
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        self.push(Output::Notice(notice));
    }

    pub(crate) fn dropped(&mut self, reason: DropReason) {
        self.notice(Notice::Dropped(reason));
    }

    /// Answer a proposal of this process.
    pub(crate) fn answer_proposal(&mut self, request_id: u64, outcome: Outcome) {
        self.push(Output::Proposed {
            request_id,
            outcome,
        });
    }
}
