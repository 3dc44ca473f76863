//! Suffix of the log, as a replica summarises it when it leaves a view.
//!
//! Per operation: the header, whether the body can be served (*present*), and whether this replica knows for certain
//! that it never held that prepare durably (*nack*). A damaged record is neither: it may have been acknowledged.

use alloc::vec::Vec;

use crate::api::Status;
use crate::frame::area::DoViewChange;
use crate::frame::{PrepareHeader, SUFFIX_MAX};
use crate::replica::log::Log;
use crate::replica::view::View;
use crate::rules::Rules;
use crate::superblock::Checkpoint;

/// Suffix of a log.
#[derive(Debug, Clone)]
pub(crate) struct Suffix {
    pub(crate) top: u64,
    /// Headers from `top` down, blank where unknown; never empty.
    pub(crate) headers: Vec<PrepareHeader>,
    present: u128,
    nacks: u128,
}

impl Suffix {
    /// Suffix of a log as it stands when `view` is left; `durable` is the operation of the durable checkpoint.
    pub(crate) fn of(log: &Log, view: &View, rules: &impl Rules, durable: u64) -> Self {
        let recorded = view.record().headers.first().map_or(0, PrepareHeader::op);
        let head = rules.head_on_leaving(log.head(), log.commit_max());
        let top = if view.status() == Status::Starting {
            head
        } else {
            head.max(recorded)
        };
        let mut suffix = Self {
            top,
            headers: Vec::new(),
            present: 0,
            nacks: 0,
        };
        if top == 0 {
            // Without operations the checkpoint is the root.
            suffix.headers.push(log.checkpoint().header);
            suffix.present = 1;
            return suffix;
        }
        let lowest = log.commit_max().min(top).max(1);
        for op in (lowest..=top).rev().take(SUFFIX_MAX) {
            suffix.describe(op, log, view, rules, op <= durable);
        }
        suffix
    }

    fn describe(
        &mut self,
        op: u64,
        log: &Log,
        view: &View,
        rules: &impl Rules,
        in_checkpoint: bool,
    ) {
        let bit = 1 << self.headers.len();
        let recorded = || {
            view.record()
                .headers
                .iter()
                .find(|header| header.op() == op && !header.is_blank())
        };
        let header = log.header(op).or_else(recorded).copied();
        let mut evidence = log.evidence(op, in_checkpoint);
        evidence.header = header.map(|header| header.checksum);
        if header.is_some() && (log.is_available(op) || in_checkpoint) {
            self.present |= bit;
        }
        if rules.nack(evidence) {
            self.nacks |= bit;
        }
        self.headers
            .push(header.unwrap_or_else(|| PrepareHeader::blank(op)));
    }

    /// Create the summary of the log for the primary of the view that has just been entered.
    pub(crate) fn summary(&self, log: &Log, view: &View, durable: &Checkpoint) -> DoViewChange {
        let (intact_op, intact_checksum) = intact_through(log, durable);
        DoViewChange {
            op: self.top,
            commit_min: log.commit_min(),
            commit_max: log.commit_max(),
            checkpoint_op: durable.op,
            log_view: view.log_view(),
            header_count: u32::try_from(self.headers.len()).expect("at most SUFFIX_MAX"),
            intact_op,
            intact_checksum,
            view_start_op: view.start_op(),
            loss_view: view.loss_view(),
            nack_bitset: self.nacks,
            present_bitset: self.present,
        }
    }
}

/// Newest operation up to which every operation above the durable checkpoint is stored here, undamaged and linked.
fn intact_through(log: &Log, durable: &Checkpoint) -> (u64, u128) {
    let (mut op, mut checksum) = (durable.op, durable.header.checksum);
    while let Some(next) = log.entry(op + 1) {
        if next.parent() != checksum || !log.is_available(op + 1) {
            break;
        }
        (op, checksum) = (op + 1, next.checksum);
    }
    (op, checksum)
}
