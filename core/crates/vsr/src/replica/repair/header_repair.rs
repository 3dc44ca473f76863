//! Repair of headers: verified downwards from the canonical ones, and fetched where they are missing.
//!
//! Canonical in a view are only the decided suffix and the operations prepared on top of it. Everything below is
//! unverified until the chain of parents has been followed down to the executed operations: a replica that was away may
//! hold entries of an abandoned view there.

use crate::api::DropReason;
use crate::frame::area::Headers;
use crate::frame::body::headers;
use crate::frame::{Frame, PrepareHeader};
use crate::replica::flow::Flow;
use crate::replica::log::CutOrder;
use crate::rules::Rules;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    /// Verify the log downwards; a stray is dropped, and fetched anew in this step.
    pub(crate) fn link(&mut self) -> Flow {
        if self.view.has_log() {
            let order = CutOrder {
                justified_by: self.view_change.log_sequence(),
                durable: self.superblock.durable_sequence(),
            };
            let has_dropped = self.log.link(&self.member.rules, order, &mut self.outbox)?;
            self.repair.headers.hasten_if(has_dropped);
        }
        Ok(())
    }

    pub(crate) fn wants_headers(&self) -> bool {
        self.view.has_log() && (!self.log.is_linked() || self.lags_behind_primary())
    }

    /// Return whether the primary of this view has a longer log than this backup, which has room for it.
    pub(crate) fn lags_behind_primary(&self) -> bool {
        self.view.follows()
            && self.repair.headers.heard_of() > self.log.head()
            && !self.lacks_room()
    }

    pub(crate) fn on_headers(&mut self, frame: &Frame, area: Headers) -> Flow {
        if !self.view.has_log() || !self.repair.headers.has_asked(area.nonce) {
            return Ok(());
        }
        let Ok(list) = headers::decode(&frame.body) else {
            self.outbox.dropped(DropReason::Malformed);
            return Ok(());
        };
        let before = (self.log.head(), self.log.link_floor());
        if frame.header.view == self.view.number()
            && frame.header.replica == self.view.primary()
            && self.view.follows()
        {
            let appended = self.log.append_headers(&list, &mut self.outbox)?;
            self.hear_primary(appended);
        }
        self.take_linked(&list)?;
        if (self.log.head(), self.log.link_floor()) == before {
            // The answer does not reach the needed operations; possibly only a checkpoint covers them.
            if self.wants_headers() {
                self.consider_transfer(frame.header.replica);
            }
        } else if self.wants_headers() {
            self.repair.headers.hasten_if(true);
        }
        self.advance()
    }

    /// Add headers below the lowest verified one, each proven by its child.
    fn take_linked(&mut self, list: &[PrepareHeader]) -> Flow {
        for header in list {
            self.link()?;
            if self.log.is_linked() {
                return Ok(());
            }
            self.log.take_linked(header, &mut self.outbox);
        }
        self.link()
    }
}
