//! View change: entering a view and summarising the log for its primary (VRR 4.2, `DoViewChange`).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::{DropReason, Notice, Status};
use crate::frame::area::{DoViewChange, VoteReason};
use crate::frame::body::headers;
use crate::frame::{Area, Frame};
use crate::rules::Rules;

use crate::replica::view_changes::merge::{Decision, Summary, merge};
use crate::replica::{Flow, Replica};

/// State of a replica while the log of its view is not known.
#[derive(Debug, Default)]
pub(in crate::replica) struct ViewChanging {
    /// Summary of this replica, and the sequence number of the superblock on which it depends. Retransmitted byte for
    /// byte.
    own: Option<(Frame, u64)>,
    sent: bool,
    /// First summary received from each replica.
    summaries: BTreeMap<u8, Summary>,
    /// Operation reported as undecidable.
    deadlock: Option<u64>,
    /// Sequence number of the superblock that records the decided or adopted log.
    pub(in crate::replica) log_sequence: u64,
    /// Number of unanswered requests for the log of the view since the start.
    pub(in crate::replica) unanswered: u32,
    /// Nonce that proves that an answer is newer than the request.
    pub(in crate::replica) nonce: u128,
}

impl ViewChanging {
    pub(in crate::replica) fn new(nonce: u128) -> Self {
        Self {
            nonce,
            ..Self::default()
        }
    }
}

impl<R: Rules> Replica<R> {
    /// Leave the current view for `view`: nothing is truncated or revoked here, the log stays unchanged.
    pub(in crate::replica) fn enter_view_change(&mut self, view: u32) -> Flow {
        if view <= self.view || self.status == Status::Halted {
            return Ok(());
        }
        let suffix = self.suffix();
        if suffix.top < self.head {
            let sequence = self.superblock.durable_sequence();
            self.log.drop_above(suffix.top, sequence);
            self.head = suffix.top;
        }
        self.leave_view();
        self.view = view;
        self.status = Status::ViewChange;
        self.discard_votes_through(view);
        self.view_headers.clone_from(&suffix.headers);
        self.view_head_op = suffix.top;
        self.view_changing.summaries.clear();
        self.view_changing.deadlock = None;
        let (area, body) = self.summary(&suffix);
        let frame = self.frame(area, body);
        let sequence = self.persist();
        self.view_changing.own = Some((frame, sequence));
        self.view_changing.sent = false;
        self.notice_view();
        self.arm_view_change_status();
        self.arm_start_view_change();
        self.arm_request_start_view();
        if !self.is_primary() {
            self.arm_do_view_change();
        }
        self.send_do_view_change()
    }

    /// Reset the in-memory state of the view.
    pub(in crate::replica) fn leave_view(&mut self) {
        let leading = self.leads();
        self.timers.leave_view();
        self.acks.fill(0);
        self.acknowledged = None;
        self.abdicated = false;
        self.announce_commit = false;
        self.early.clear();
        self.header_repair.leave_view();
        self.body_repair.leave_view();
        if leading {
            self.redirect_clients();
        }
        self.fail_reads();
    }

    /// Send the summary once the superblock on which it depends is durable.
    pub(in crate::replica) fn send_do_view_change(&mut self) -> Flow {
        if self.status != Status::ViewChange || self.view_changing.sent {
            return Ok(());
        }
        let Some((frame, sequence)) = self.view_changing.own.clone() else {
            return Ok(());
        };
        if !self.superblock_covers(sequence) {
            return Ok(());
        }
        self.view_changing.sent = true;
        if !self.is_primary() {
            self.send_frame(self.primary_of(self.view), frame);
            return Ok(());
        }
        let Area::DoViewChange(area) = frame.header.area else {
            return Ok(());
        };
        self.take_summary(&frame, area)
    }

    pub(in crate::replica) fn on_do_view_change_timeout(&mut self) {
        if self.status != Status::ViewChange || self.is_primary() {
            return;
        }
        if self.view_changing.sent
            && let Some((frame, _)) = self.view_changing.own.clone()
        {
            self.send_frame(self.primary_of(self.view), frame);
        }
        self.arm_do_view_change();
    }

    pub(in crate::replica) fn on_do_view_change(
        &mut self,
        frame: &Frame,
        area: DoViewChange,
    ) -> Flow {
        let header = frame.header;
        self.hear_checkpoint(header.replica, area.checkpoint_op);
        if self.primary_of(header.view) != self.config.replica {
            self.dropped(DropReason::Status);
            return Ok(());
        }
        if header.view > self.view {
            self.enter_view_change(header.view)?;
        }
        if self.leads() && header.view <= self.view {
            self.send_start_view_to(header.replica, 0);
            return Ok(());
        }
        if header.view != self.view || self.status != Status::ViewChange {
            return Ok(());
        }
        self.take_summary(frame, area)
    }

    fn take_summary(&mut self, frame: &Frame, area: DoViewChange) -> Flow {
        let replica = frame.header.replica;
        let Some(summary) = headers::decode(&frame.body)
            .ok()
            .and_then(|headers| Summary::new(area, headers))
        else {
            self.dropped(DropReason::Malformed);
            return Ok(());
        };
        self.view_changing
            .summaries
            .entry(replica)
            .or_insert(summary);
        // A new primary always decides with its own summary: only with that does its superblock record the view.
        if !self
            .view_changing
            .summaries
            .contains_key(&self.config.replica)
        {
            return Ok(());
        }
        let decision = merge(
            &self.rules,
            self.quorums,
            self.view_changing.summaries.values(),
        )?;
        match decision {
            Decision::Wait => Ok(()),
            Decision::Deadlock(op) => {
                if self.view_changing.deadlock.replace(op) != Some(op) {
                    self.notice(Notice::Deadlock { op });
                }
                Ok(())
            }
            Decision::Decided(log) => self.start_with(&log),
        }
    }

    /// Choose a replica that reported this prepare as present, for a new primary that lacks it; `turn` rotates the
    /// choice.
    pub(in crate::replica) fn source_of(&self, op: u64, turn: u8) -> Option<u8> {
        let checksum = self.header(op).map(|header| header.checksum);
        let holders: Vec<u8> = self
            .view_changing
            .summaries
            .iter()
            .filter(|(replica, summary)| {
                **replica != self.config.replica && summary.serves(op, checksum)
            })
            .map(|(replica, _)| *replica)
            .collect();
        let index = usize::from(turn).checked_rem(holders.len())?;
        Some(holders[index])
    }

    /// Request the log of the view: from all replicas, or from the primary of a view that is known.
    pub(in crate::replica) fn send_request_start_view(&mut self, to: Option<u8>) {
        let area = crate::frame::area::RequestStartView {
            nonce: self.view_changing.nonce,
            log_view: self.log_view,
            op: self.head,
        };
        let frame = self.frame(area, Slice::default());
        match to {
            Some(to) => self.send_frame(to, frame),
            None => self.broadcast(&frame),
        }
    }

    pub(in crate::replica) fn on_request_start_view_timeout(&mut self) {
        match self.status {
            Status::Recovering => {
                self.send_request_start_view(None);
                self.view_changing.unanswered += 1;
                // No replica answers: perhaps all have just started, or wait for a primary that has failed.
                if self.view_changing.unanswered > 5 && self.votes.own_view().is_none() {
                    self.vote(VoteReason::Stalled);
                }
            }
            Status::ViewChange => self.send_request_start_view(None),
            _ => return,
        }
        self.arm_request_start_view();
    }
}
