//! Suffix of the log, as a replica summarises it when it leaves a view.
//!
//! Per operation: the header, whether the body can be served (*present*), and whether this replica knows for certain
//! that it never held that prepare durably (*nack*). A damaged record is neither: it may have been acknowledged.

use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::Status;
use crate::frame::area::DoViewChange;
use crate::frame::body::headers;
use crate::frame::{PrepareHeader, SUFFIX_MAX};
use crate::rules::Rules;

use crate::replica::Replica;

/// Suffix of a log.
#[derive(Debug, Clone)]
pub(in crate::replica) struct Suffix {
    pub(in crate::replica) top: u64,
    /// Headers from `top` down, blank where unknown; never empty.
    pub(in crate::replica) headers: Vec<PrepareHeader>,
    pub(in crate::replica) present: u128,
    pub(in crate::replica) nacks: u128,
}

impl<R: Rules> Replica<R> {
    pub(in crate::replica) fn suffix(&self) -> Suffix {
        let recorded = self.view_headers.first().map_or(0, PrepareHeader::op);
        let head = self.rules.head_on_leaving(self.head, self.commit_max);
        let top = if self.status == Status::Starting {
            head
        } else {
            head.max(recorded)
        };
        let mut suffix = Suffix {
            top,
            headers: Vec::new(),
            present: 0,
            nacks: 0,
        };
        if top == 0 {
            suffix
                .headers
                .push(PrepareHeader::root(self.config.cluster, self.config.group));
            suffix.present = 1;
            return suffix;
        }
        let lowest = self.commit_max.min(top).max(1);
        for (index, op) in (lowest..=top).rev().take(SUFFIX_MAX).enumerate() {
            self.describe(op, index, &mut suffix);
        }
        suffix
    }

    fn describe(&self, op: u64, index: usize, suffix: &mut Suffix) {
        let recorded = || {
            self.view_headers
                .iter()
                .find(|header| header.op() == op && !header.is_blank())
        };
        let header = self.header(op).or_else(recorded).copied();
        let in_checkpoint = op <= self.superblock.durable_checkpoint();
        let mut evidence = self.log.evidence(op, in_checkpoint);
        evidence.header = header.map(|header| header.checksum);
        if header.is_some() && (self.log.is_available(op) || in_checkpoint) {
            suffix.present |= 1 << index;
        }
        if self.rules.nack(evidence) {
            suffix.nacks |= 1 << index;
        }
        suffix
            .headers
            .push(header.unwrap_or_else(|| PrepareHeader::blank(op)));
    }

    /// Newest operation up to which every operation above the durable checkpoint is stored here, undamaged and linked.
    fn whole_through(&self) -> (u64, u128) {
        let checkpoint = &self.superblock.durable().checkpoint;
        let (mut op, mut checksum) = (checkpoint.op, checkpoint.header.checksum);
        while let Some(next) = self.log.header(op + 1) {
            if next.parent() != checksum || !self.log.is_available(op + 1) {
                break;
            }
            (op, checksum) = (op + 1, next.checksum);
        }
        (op, checksum)
    }

    /// Create the summary of the log for the primary of the view that has just been entered.
    pub(in crate::replica) fn summary(&self, suffix: &Suffix) -> (DoViewChange, Slice) {
        let (whole_op, whole_checksum) = self.whole_through();
        let area = DoViewChange {
            op: suffix.top,
            commit_min: self.commit_min,
            commit_max: self.commit_max,
            checkpoint_op: self.superblock.durable_checkpoint(),
            log_view: self.log_view,
            header_count: u32::try_from(suffix.headers.len()).expect("at most SUFFIX_MAX"),
            intact_op: whole_op,
            intact_checksum: whole_checksum,
            view_start_op: self.view_start_op,
            loss_view: self.loss_view,
            nack_bitset: suffix.nacks,
            present_bitset: suffix.present,
        };
        (area, Slice::from_vec(headers::encode(&suffix.headers)))
    }
}
