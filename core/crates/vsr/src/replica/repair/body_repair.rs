//! Repair of bodies: fetched from other replicas by checksum, or read back from the journal.

use crate::api::{Notice, Status};
use crate::frame::area::{NoPrepare, NoPrepareReason};
use crate::frame::{Header, PrepareFrame};
use crate::replica::flow::{Flow, broken};
use crate::replica::repair::bodies::{Purpose, ROUND_OPS_MAX};
use crate::rules::Rules;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    /// Return whether this backup accepts no prepares until its journal has stored others. Bodies that were requested
    /// before are still accepted. A replica that leads, or is about to, needs all bodies of its view.
    pub(crate) fn lacks_room(&self) -> bool {
        self.view.follows() && self.log.is_full()
    }

    fn may_fetch_bodies(&self) -> bool {
        self.view.has_log() && !self.lacks_room()
    }

    /// Run a round of repair at once if an entry is missing and no round is scheduled, or if this step has made new
    /// requests possible. Called at the end of a step.
    pub(crate) fn keep_repairing(&mut self) {
        let request_now = self.repair.take_request_now();
        if self.member.is_alone() || !self.view.has_log() {
            return;
        }
        let begins = !self.timers.repair.armed()
            && (self.wants_headers() || (self.log.wants_bodies() && !self.lacks_room()));
        if begins || request_now {
            self.repair_round();
        }
    }

    pub(crate) fn on_repair_timeout(&mut self) {
        self.repair.bodies.expire(self.moment.ns());
        let wants_bodies =
            || self.may_fetch_bodies() && !self.log.wanted_bodies(ROUND_OPS_MAX).is_empty();
        if self.wants_headers() || wants_bodies() {
            self.repair_round();
        }
    }

    fn repair_round(&mut self) {
        let (lags, may_fetch) = (self.lags_behind_primary(), self.may_fetch_bodies());
        if self.wants_headers() {
            let (log, view) = (&self.log, &self.view);
            self.repair
                .headers
                .request(lags, log, view, &mut self.moment, &mut self.outbox);
        }
        if may_fetch {
            self.repair.bodies.request(
                self.log.wanted_bodies(ROUND_OPS_MAX),
                &self.log,
                &self.view,
                &self.view_change,
                &mut self.moment,
                &mut self.outbox,
            );
        }
        self.timers.repair.arm(&mut self.moment);
    }

    /// Read a body from the journal into memory, once.
    pub(crate) fn load(&mut self, op: u64) {
        self.repair.bodies.load(op, &self.log, &mut self.outbox);
    }

    /// Handle a refusal. A refusal never counts as a nack in a view change.
    pub(crate) fn on_no_prepare(&mut self, header: &Header, area: NoPrepare) {
        if !self.repair.bodies.refused(header.replica, area) {
            return;
        }
        let gone = matches!(
            area.reason,
            NoPrepareReason::Evicted | NoPrepareReason::Faulty
        );
        if gone && area.op > self.log.commit_min() {
            self.consider_transfer(header.replica);
        }
    }

    pub(crate) fn on_read_done(&mut self, token: u64, frame: Option<PrepareFrame>) -> Flow {
        let Some(load) = self.repair.bodies.loaded(token) else {
            return broken("a token is completed once");
        };
        let frame = frame.filter(|frame| frame.header.checksum == load.checksum);
        match (frame, load.purpose) {
            (Some(frame), Purpose::Own) => self.log.cache(frame),
            (Some(frame), Purpose::Serve { peer, .. }) => self.outbox.send_frame(peer, frame.any()),
            (None, purpose) => {
                if self.log.mark_faulty(load.op, load.checksum) {
                    self.outbox.notice(Notice::Faulty { op: load.op });
                    if self.member.is_alone() {
                        return broken("the only replica's log is readable");
                    }
                    self.repair.headers.hasten_if(true);
                }
                if let Purpose::Serve { peer, nonce } = purpose {
                    self.refuse(peer, load.op, load.checksum, nonce, NoPrepareReason::Faulty);
                }
            }
        }
        self.advance()
    }

    /// Handle missing progress of commits: ask another replica for its checkpoint.
    pub(crate) fn on_repair_sync_timeout(&mut self) {
        if self.view.status() != Status::Normal || self.member.is_alone() {
            return;
        }
        let lags = self.log.commit_max() > self.log.commit_min() || self.wants_headers();
        if lags && !self.lacks_room() {
            let lowest = self.log.commit_min() + 1;
            let (log, view, change) = (&self.log, &self.view, &self.view_change);
            let peer = self
                .repair
                .bodies
                .next_peer(lowest, log, view, change, &mut self.moment)
                .unwrap_or(self.view.primary());
            if peer != self.member.config.replica {
                self.consider_transfer(peer);
            }
        }
        self.timers.repair_sync.arm(&mut self.moment);
    }
}
