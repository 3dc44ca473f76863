//! Adoption of the log of a view by a backup (VRR 4.2, `StartView` at the backups, and 4.3).

use alloc::vec::Vec;

use crate::api::{DropReason, Status};
use crate::frame::area::{RequestStartView, StartView};
use crate::frame::body::headers;
use crate::frame::{Frame, Header, PrepareHeader, SUFFIX_MAX};
use crate::replica::flow::{Flow, must};
use crate::rules::{Adoption, Rules};

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    pub(crate) fn on_start_view(&mut self, frame: &Frame, area: StartView) -> Flow {
        let header = frame.header;
        self.checkpoints.hear(header.replica, area.checkpoint_op);
        if header.replica != self.view.primary_of(header.view) {
            self.outbox.dropped(DropReason::Author);
            return Ok(());
        }
        let adoption = Adoption {
            view: self.view.number(),
            log_view: self.view.log_view(),
            in_view: self.view.knows_log(),
            frame_view: header.view,
            nonce_fresh: area.nonce == self.view_change.nonce(),
        };
        if !self.member.rules.adopts(adoption) || header.view < self.view.number() {
            return Ok(());
        }
        let Some(suffix) = read_suffix(frame, &area) else {
            self.outbox.dropped(DropReason::Malformed);
            return Ok(());
        };
        self.checkpoints
            .check(area.checkpoint_op, area.checkpoint_id)?;
        self.adopt(header.view, &area, suffix)
    }

    fn adopt(&mut self, view: u32, area: &StartView, suffix: Vec<PrepareHeader>) -> Flow {
        must(
            area.op >= self.log.commit_max().max(self.log.commit_min()),
            "a view begins with all that was committed",
        )?;
        self.leave_view();
        self.view_change.votes.discard_through(view);
        self.view.adopt(view, area.view_start_op, area.loss_view);
        self.outbox.enter_view(view);
        self.view_change.answered();
        self.take_over_suffix(area.op, area.commit_max, suffix)?;
        self.timers.view_change_status.arm(&mut self.moment);
        self.outbox.notice(self.view.notice());
        self.finish_adoption()
    }

    /// Begin to follow the view once its log is recorded.
    pub(crate) fn finish_adoption(&mut self) -> Flow {
        if self.view.status() != Status::Adopting
            || !self.superblock_covers(self.view_change.log_sequence())
        {
            return Ok(());
        }
        self.cut_journal();
        self.redirect_cut_proposals();
        self.view.begin();
        self.pipeline.follow();
        self.timers.view_change_status.backoff.reset();
        self.withdraw_vote();
        self.arm_normal();
        self.outbox.notice(self.view.notice());
        self.repair.headers.hasten_if(true);
        self.advance()?;
        self.try_acknowledge(true)
    }

    pub(crate) fn on_request_start_view(&mut self, header: &Header, area: RequestStartView) {
        if header.view > self.view.number() {
            // The requester knows a newer view, which it can only have entered through a quorum.
            self.ask_for_view(header.view);
            return;
        }
        let is_recorded = self.superblock.durable_log_view() == self.view.number();
        if self.view.leads() && is_recorded {
            self.send_start_view_to(header.replica, area.nonce);
        }
    }
}

/// Decode the headers of a `StartView`: descending from its head, all known, linked.
fn read_suffix(frame: &Frame, area: &StartView) -> Option<Vec<PrepareHeader>> {
    let suffix = headers::decode(&frame.body).ok()?;
    let descending = suffix.iter().enumerate().all(|(index, header)| {
        !header.is_blank() && Some(header.op()) == area.op.checked_sub(index as u64)
    });
    let linked = suffix
        .windows(2)
        .all(|pair| pair[0].parent() == pair[1].checksum);
    let counted = suffix.len() == area.header_count as usize && suffix.len() <= SUFFIX_MAX;
    (descending && linked && counted && area.commit_max <= area.op).then_some(suffix)
}
