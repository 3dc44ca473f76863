//! Adoption of the log of a view by a backup (VRR 4.2, `StartView` at the backups, and 4.3).

use crate::api::{DropReason, FatalReason, Status};
use crate::frame::area::{RequestStartView, StartView};
use crate::frame::body::headers;
use crate::frame::{Frame, Header, PrepareHeader, SUFFIX_MAX};
use crate::rules::{Adoption, Rules};

use crate::replica::{Flow, Replica};

impl<R: Rules> Replica<R> {
    pub(in crate::replica) fn on_start_view(&mut self, frame: &Frame, area: StartView) -> Flow {
        let header = frame.header;
        self.hear_checkpoint(header.replica, area.checkpoint_op);
        if header.replica != self.primary_of(header.view) {
            self.dropped(DropReason::Author);
            return Ok(());
        }
        let adoption = Adoption {
            view: self.view,
            log_view: self.log_view,
            in_view: matches!(
                self.status,
                Status::Normal | Status::Starting | Status::Adopting
            ),
            frame_view: header.view,
            nonce_fresh: area.nonce == self.view_changing.nonce,
        };
        if !self.rules.adopts(adoption) || header.view < self.view {
            return Ok(());
        }
        let Some(suffix) = read_suffix(frame, &area) else {
            self.dropped(DropReason::Malformed);
            return Ok(());
        };
        self.check_digest_at(area.checkpoint_op, area.checkpoint_id)?;
        self.adopt(header.view, &area, &suffix)
    }

    fn adopt(&mut self, view: u32, area: &StartView, suffix: &[PrepareHeader]) -> Flow {
        if area.op < self.commit_max || area.op < self.commit_min {
            return Err(FatalReason::Invariant(
                "a view begins with all that was committed",
            ));
        }
        self.leave_view();
        self.discard_votes_through(view);
        self.view = view;
        self.log_view = view;
        self.view_start_op = area.view_start_op;
        self.loss_view = area.loss_view;
        self.status = Status::Adopting;
        self.view_changing.unanswered = 0;
        self.take_over_suffix(area.op, area.commit_max, suffix)?;
        self.view_changing.log_sequence = self.persist();
        self.arm_view_change_status();
        self.notice_view();
        self.finish_adoption()
    }

    /// Begin to follow the view once its log is recorded.
    pub(in crate::replica) fn finish_adoption(&mut self) -> Flow {
        if self.status != Status::Adopting
            || !self.superblock_covers(self.view_changing.log_sequence)
        {
            return Ok(());
        }
        self.cut_journal();
        self.redirect_cut_proposals();
        self.status = Status::Normal;
        self.acknowledged = None;
        self.timers.view_change_status.backoff.reset();
        self.withdraw_vote();
        self.arm_normal();
        self.notice_view();
        self.header_repair.soon = true;
        self.advance()?;
        self.try_acknowledge(true)
    }

    pub(in crate::replica) fn on_request_start_view(
        &mut self,
        header: &Header,
        area: RequestStartView,
    ) {
        if header.view > self.view {
            // The requester knows a newer view, which it can only have entered through a quorum.
            self.ask_for_view(header.view);
            return;
        }
        let recorded = self.superblock.durable_log_view() == self.view;
        if self.leads() && recorded {
            self.send_start_view_to(header.replica, area.nonce);
        }
    }
}

/// Decode the headers of a `StartView`: descending from its head, all known, linked.
fn read_suffix(frame: &Frame, area: &StartView) -> Option<alloc::vec::Vec<PrepareHeader>> {
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
