//! Start of a new primary: from the decided log to normal operation (VRR 4.2, `StartView`).

use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::Status;
use crate::frame::PrepareHeader;
use crate::frame::area::StartView;
use crate::frame::body::headers;
use crate::replica::flow::{Flow, must};
use crate::replica::log::CutOrder;
use crate::replica::view_changes::merge::DecidedLog;
use crate::rules::Rules;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    /// Take over the decided log. The decision is final: later summaries of this view change nothing.
    pub(crate) fn start_with(&mut self, decided: &DecidedLog) -> Flow {
        must(
            self.log.commit_max().max(self.log.commit_min()) <= decided.head,
            "a merge never cuts what is committed",
        )?;
        self.view.start(decided.head, decided.loss_view);
        let suffix: Vec<PrepareHeader> = decided.headers.values().rev().copied().collect();
        self.take_over_suffix(decided.head, decided.commit, suffix)?;
        self.timers.do_view_change.stop();
        self.timers.request_start_view.stop();
        self.repair.headers.hasten_if(true);
        self.outbox.notice(self.view.notice());
        self.advance()
    }

    /// Make a canonical suffix (descending) the end of the log, and request the superblock that records it.
    pub(crate) fn take_over_suffix(
        &mut self,
        head: u64,
        commit: u64,
        suffix: Vec<PrepareHeader>,
    ) -> Flow {
        let order = CutOrder {
            justified_by: self.superblock.request(),
            durable: self.superblock.durable_sequence(),
        };
        self.view_change.record_log(order.justified_by);
        self.log
            .take_over_suffix(head, commit, &suffix, order, &mut self.outbox)?;
        let recorded = if !suffix.is_empty() {
            suffix
        } else if head == 0 {
            // Without operations the checkpoint is the root.
            alloc::vec![self.log.checkpoint().header]
        } else {
            alloc::vec![PrepareHeader::blank(head)]
        };
        self.view.record_suffix(head, recorded);
        Ok(())
    }

    /// Begin to serve once the log is recorded, complete, linked and executed up to the commit point.
    pub(crate) fn try_start(&mut self) -> Flow {
        if self.view.status() != Status::Starting
            || !self.superblock_covers(self.view_change.log_sequence())
            || !self.execution.is_idle()
            || self.log.commit_min() < self.log.commit_max()
            || !self.log.is_verified(&self.member.rules)
            || !(self.member.rules.may_start_without_body() || self.has_loaded_pipeline())
        {
            return Ok(());
        }
        self.redirect_cut_proposals();
        self.view.begin();
        self.pipeline.begin(self.moment.ns());
        self.view_change.votes.discard_through(self.view.number());
        self.timers.view_change_status.backoff.reset();
        self.arm_normal();
        self.outbox.notice(self.view.notice());
        for peer in self.outbox.peers() {
            self.send_start_view_to(peer, 0);
        }
        self.send_pipeline(self.log.head());
        self.try_acknowledge(true)
    }

    /// Return whether all bodies above the commit point are in memory; read them from the journal otherwise. Uncommitted
    /// prepares are retransmitted.
    fn has_loaded_pipeline(&mut self) -> bool {
        let mut is_loaded = true;
        for op in self.log.commit_min() + 1..=self.log.head() {
            if !self.log.is_available(op) {
                return false;
            }
            if self.log.frame(op).is_none() {
                self.load(op);
                is_loaded = false;
            }
        }
        is_loaded
    }

    /// Arm the timers of a view that this replica has just begun to serve or to follow.
    pub(crate) fn arm_normal(&mut self) {
        self.timers.leave_view();
        if self.member.is_alone() {
            return;
        }
        self.timers.repair_sync.arm(&mut self.moment);
        if self.view.is_primary() {
            self.timers.commit_message.arm(&mut self.moment);
            self.timers.abdicate.arm(&mut self.moment);
            if self.log.has_uncommitted() {
                self.timers.prepare.arm_anew(&self.moment);
            }
        } else {
            self.timers.normal_heartbeat.arm(&mut self.moment);
        }
    }

    /// Send the log of this view to one replica. An answer has the same suffix as the broadcast: without the suffix the
    /// receiver could keep an entry that the view has cut.
    pub(crate) fn send_start_view_to(&mut self, to: u8, nonce: u128) {
        let head = self.log.head();
        // The lowest header is that of the root if there are no operations.
        let lowest = self.log.commit_max().max(1).min(head);
        let suffix: Option<Vec<PrepareHeader>> = (lowest..=head)
            .rev()
            .map(|op| self.log.header(op).copied())
            .collect();
        let Some(suffix) = suffix else {
            return;
        };
        let checkpoint = self.superblock.durable_checkpoint();
        let area = StartView {
            nonce,
            checkpoint_id: checkpoint.id,
            op: head,
            commit_max: self.log.commit_max(),
            checkpoint_op: checkpoint.op,
            header_count: u32::try_from(suffix.len()).expect("at most SUFFIX_MAX"),
            loss_view: self.view.loss_view(),
            view_start_op: self.view.start_op(),
        };
        let body = Slice::from_vec(headers::encode(&suffix));
        self.outbox.send(to, area, body);
    }
}
