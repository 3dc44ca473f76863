//! Parts of the user's share that answers hold: from the start of a request until its client has taken the answer.

use headrace_partition::Poll;

use super::Pipeline;
use crate::{calls::PartitionCall, memory::Claim};

impl Pipeline {
    /// Keep a part of the user's share for the answer to the next request, or to the one in flight.
    pub(crate) fn hold_answer(&mut self, claim: Claim) {
        self.answer_claim = Some(claim);
    }

    /// Return whether there is a part of the user's share for the next answer.
    pub(crate) fn has_answer_claim(&self) -> bool {
        self.answer_claim.is_some()
    }

    /// Release that part: the request waits, or needs another one.
    pub(crate) fn release_answer_claim(&mut self) {
        self.answer_claim = None;
    }

    /// Keep no more than this many bytes of that part.
    pub(crate) fn shrink_answer_claim(&mut self, bytes_max: u32) {
        if let Some(claim) = &mut self.answer_claim {
            claim.resize(claim.bytes().min(bytes_max.into()));
        }
    }

    /// Maximum size of the next answer.
    pub(crate) fn answer_bytes_max(&self) -> u32 {
        let claim = self.answer_claim.as_ref();
        claim.map_or(Poll::UNLIMITED, |claim| {
            u32::try_from(claim.bytes()).unwrap_or(Poll::UNLIMITED)
        })
    }

    /// Remember the poll in flight.
    pub(crate) fn remember_poll(&mut self, call: PartitionCall<Poll>) {
        self.poll = Some(call);
    }

    /// Poll in flight, limited to the part of the share for its answer.
    pub(crate) fn limit_poll(&self) -> Option<PartitionCall<Poll>> {
        let call = self.poll.filter(|_| self.exclusive)?;
        let bytes_max = self.answer_bytes_max();
        let request = Poll {
            bytes_max,
            ..call.request
        };
        Some(PartitionCall { request, ..call })
    }

    /// Note that bytes were sent.
    pub(crate) fn sent(&mut self, bytes: u64) {
        if let Some(unsent) = &mut self.unsent_claim {
            if self.outgoing.is_empty() {
                self.unsent_claim = None;
            } else {
                unsent.resize(unsent.bytes().saturating_sub(bytes));
            }
        }
    }
}

/// Have an answer of this size hold its part of the share until it is sent.
pub(super) fn keep_until_sent(unsent: &mut Option<Claim>, mut claim: Claim, bytes: u64) {
    if let Some(unsent) = unsent {
        unsent.resize(unsent.bytes() + bytes);
    } else {
        claim.resize(bytes);
        *unsent = Some(claim);
    }
}
