//! Start of a new primary: from the decided log to normal operation (VRR 4.2, `StartView`).

use headrace_buffer::Slice;

use crate::api::{FatalReason, Notice, Status};
use crate::frame::area::StartView;
use crate::frame::body::headers;
use crate::frame::{Frame, PrepareHeader};
use crate::rules::Rules;

use crate::replica::view_changes::merge::DecidedLog;
use crate::replica::{Flow, Replica};

impl<R: Rules> Replica<R> {
    /// Take over the decided log. The decision is final: later summaries of this view change nothing.
    pub(super) fn start_with(&mut self, log: &DecidedLog) -> Flow {
        if self.commit_max > log.head || self.commit_min > log.head {
            return Err(FatalReason::Invariant(
                "a merge never cuts what is committed",
            ));
        }
        self.status = Status::Starting;
        self.log_view = self.view;
        self.view_start_op = log.head;
        self.loss_view = log.loss_view;
        let decided: alloc::vec::Vec<PrepareHeader> = log.headers.values().rev().copied().collect();
        self.take_over_suffix(log.head, log.commit, &decided)?;
        self.view_changing.log_sequence = self.persist();
        self.timers.do_view_change.stop();
        self.timers.request_start_view.stop();
        self.header_repair.soon = true;
        self.notice_view();
        self.advance()
    }

    /// Make a canonical suffix (descending) the end of the logical log. Entries that contradict it, or lie above it,
    /// are dropped at once; the journal is cut when the superblock that justifies the cut is durable.
    pub(super) fn take_over_suffix(
        &mut self,
        head: u64,
        commit: u64,
        suffix: &[PrepareHeader],
    ) -> Flow {
        // Both callers request exactly this superblock next.
        let justified_by = self.persist();
        if let Some(from_op) = self.log.drop_above(head, justified_by) {
            if from_op <= self.commit_min {
                return Err(FatalReason::Invariant("what was executed is never cut"));
            }
            self.notice(Notice::Truncated { from_op });
        }
        for header in suffix {
            self.install_header(*header, justified_by)?;
        }
        self.head = head;
        self.commit_max = self.commit_max.max(commit.min(head));
        self.link_floor = suffix.last().map_or(head + 1, PrepareHeader::op).max(1);
        self.view_head_op = head;
        self.view_headers = if !suffix.is_empty() {
            suffix.to_vec()
        } else if head == 0 {
            alloc::vec![PrepareHeader::root(self.config.cluster, self.config.group)]
        } else {
            alloc::vec![PrepareHeader::blank(head)]
        };
        // Test rules may allow a cut before the superblock is durable: cut now in that case.
        self.cut_journal();
        Ok(())
    }

    fn install_header(&mut self, header: PrepareHeader, justified_by: u64) -> Flow {
        self.must_know(&header)?;
        let op = header.op();
        if op <= self.checkpoint.op {
            return Ok(());
        }
        match self.log.header(op) {
            Some(held) if held.checksum == header.checksum => return Ok(()),
            Some(_) => {
                if op <= self.commit_min {
                    return Err(FatalReason::Invariant("what was executed is never cut"));
                }
                self.log.drop_op(op, justified_by);
            }
            None => {}
        }
        self.log.want(header);
        Ok(())
    }

    /// Begin to serve once the log is recorded, complete, linked and executed up to the commit point.
    pub(super) fn try_start(&mut self) -> Flow {
        if self.status != Status::Starting
            || !self.superblock_covers(self.view_changing.log_sequence)
            || self.executing.is_some()
            || self.commit_min < self.commit_max
        {
            return Ok(());
        }
        if !self.rules.verified(self.commit_min + 1, self.link_floor) && self.head > self.commit_min
        {
            return Ok(());
        }
        if !self.rules.may_start_without_body() {
            let mut loaded = true;
            for op in self.commit_min + 1..=self.head {
                if !self.log.is_available(op) {
                    return Ok(());
                }
                // Uncommitted prepares are retransmitted and must therefore be in memory.
                if self.log.frame(op).is_none() {
                    self.load(op);
                    loaded = false;
                }
            }
            if !loaded {
                return Ok(());
            }
        }
        self.redirect_cut_proposals();
        self.status = Status::Normal;
        self.acks.fill(0);
        self.acknowledged = None;
        self.last_heard_ns.fill(self.now.monotonic_ns);
        self.discard_votes_through(self.view);
        self.timers.view_change_status.backoff.reset();
        self.arm_normal();
        self.notice_view();
        for peer in self.peers() {
            self.send_start_view_to(peer, 0);
        }
        self.send_pipeline(self.head);
        self.try_acknowledge(true)
    }

    /// Send the log of this view to one replica. An answer has the same suffix as the broadcast: without the suffix the
    /// receiver could keep an entry that the view has cut.
    pub(super) fn send_start_view_to(&mut self, to: u8, nonce: u128) {
        let mut suffix = alloc::vec::Vec::new();
        if self.head == 0 {
            suffix.push(PrepareHeader::root(self.config.cluster, self.config.group));
        } else {
            for op in (self.commit_max.max(1)..=self.head).rev() {
                let Some(header) = self.header(op) else {
                    return;
                };
                suffix.push(*header);
            }
        }
        let checkpoint = self.superblock.durable().checkpoint;
        let area = StartView {
            nonce,
            checkpoint_id: checkpoint.id,
            op: self.head,
            commit_max: self.commit_max,
            checkpoint_op: checkpoint.op,
            header_count: u32::try_from(suffix.len()).expect("at most SUFFIX_MAX"),
            loss_view: self.loss_view,
            view_start_op: self.view_start_op,
        };
        let frame = Frame::seal(
            self.origin(),
            area,
            Slice::from_vec(headers::encode(&suffix)),
        );
        self.send_frame(to, frame.any());
    }
}
