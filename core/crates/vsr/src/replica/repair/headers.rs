//! Requests for headers.

use headrace_buffer::Slice;

use crate::frame::area::RequestHeaders;
use crate::replica::log::Log;
use crate::replica::outbox::Outbox;
use crate::replica::timers::Moment;
use crate::replica::view::View;

/// Maximum number of headers in one answer.
pub(crate) const SPAN_MAX: u64 = 128;

#[derive(Debug, Default)]
pub(crate) struct HeaderRepair {
    /// Newest operation that the primary of this view is known to have.
    heard_of: u64,
    /// True if a header is missing: send requests in this step, without waiting for the timer.
    soon: bool,
    /// Nonce of the requests of this view; 0 before the first. One nonce serves all rounds, because an answer may take
    /// longer than the next round.
    nonce: u128,
    last_peer: u8,
}

impl HeaderRepair {
    /// Record that the primary of this view has `op`.
    pub(crate) fn hear_of(&mut self, op: u64) {
        self.heard_of = self.heard_of.max(op);
    }

    pub(crate) fn heard_of(&self) -> u64 {
        self.heard_of
    }

    pub(crate) fn leave_view(&mut self) {
        self.heard_of = 0;
        self.nonce = 0;
        self.soon = false;
    }

    /// Run a round of repair at the end of this step, if `condition` holds.
    pub(crate) fn hasten_if(&mut self, condition: bool) {
        self.soon |= condition;
    }

    pub(crate) fn take_soon(&mut self) -> bool {
        core::mem::take(&mut self.soon)
    }

    /// Return whether an answer belongs to a request of this view.
    pub(crate) fn has_asked(&self, nonce: u128) -> bool {
        self.nonce != 0 && nonce == self.nonce
    }

    /// Request headers: downwards from any replica, since the chain verifies them; upwards only from the primary, if
    /// this backup `lags` behind it.
    pub(crate) fn request(
        &mut self,
        lags: bool,
        log: &Log,
        view: &View,
        moment: &mut Moment,
        outbox: &mut Outbox,
    ) {
        if self.nonce == 0 {
            self.nonce = u128::from(moment.nonce());
        }
        if lags {
            let area = RequestHeaders {
                nonce: self.nonce,
                op_min: log.head() + 1,
                op_max: self.heard_of.min(log.head() + SPAN_MAX),
            };
            outbox.send(view.primary(), area, Slice::default());
        }
        if !log.is_linked() {
            let to = log.link_floor() - 1;
            let area = RequestHeaders {
                nonce: self.nonce,
                op_min: (log.commit_min() + 1).max(to.saturating_sub(SPAN_MAX - 1)),
                op_max: to,
            };
            let peer = self.next_peer(view);
            outbox.send(peer, area, Slice::default());
        }
    }

    fn next_peer(&mut self, view: &View) -> u8 {
        let count = view.members();
        let next = (self.last_peer + 1) % count;
        let next = if next == view.replica() {
            (next + 1) % count
        } else {
            next
        };
        self.last_peer = next;
        next
    }
}
