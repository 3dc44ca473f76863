//! Order of superblock writes before the frames and actions that depend on them.
//!
//! A change of view, log view or checkpoint requests a superblock and remembers its sequence number. Dependent actions
//! wait until that superblock, or a later one, is durable. One write is in flight at a time and the next one carries
//! the newest state, so many changes may share one write. An action that was overtaken by a later change finds that its
//! view or status has changed and does nothing.

use alloc::boxed::Box;

use crate::api::{FatalReason, Output, Status};
use crate::rules::{Rules, may_cut};
use crate::superblock::Superblock;

use crate::replica::{Flow, Replica};

#[derive(Debug)]
pub(in crate::replica) struct SuperblockOrder {
    /// Last image given to the host, durable or in flight.
    image: Superblock,
    durable: Superblock,
    in_flight: Option<u64>,
    /// Highest sequence number that an action waits for.
    wanted: u64,
}

impl SuperblockOrder {
    pub(in crate::replica) fn opened(image: Superblock) -> Self {
        Self {
            durable: image.clone(),
            wanted: image.sequence,
            image,
            in_flight: None,
        }
    }

    pub(in crate::replica) fn epoch(&self) -> u32 {
        self.image.epoch
    }

    pub(in crate::replica) fn durable_sequence(&self) -> u64 {
        self.durable.sequence
    }

    pub(in crate::replica) fn durable_view(&self) -> u32 {
        self.durable.view
    }

    pub(in crate::replica) fn durable_log_view(&self) -> u32 {
        self.durable.log_view
    }

    pub(in crate::replica) fn durable_checkpoint(&self) -> u64 {
        self.durable.checkpoint.op
    }

    pub(in crate::replica) fn durable(&self) -> &Superblock {
        &self.durable
    }
}

impl<R: Rules> Replica<R> {
    /// Request a superblock with the current state. Returns its sequence number.
    pub(in crate::replica) fn persist(&mut self) -> u64 {
        self.superblock.wanted = self.superblock.image.sequence + 1;
        self.superblock.wanted
    }

    pub(in crate::replica) fn superblock_covers(&self, sequence: u64) -> bool {
        self.rules
            .superblock_covers(self.superblock.durable_sequence(), sequence)
    }

    /// Give the host the newest state, if an action waits for it. Called at the end of a step.
    pub(in crate::replica) fn flush_superblock(&mut self) -> Flow {
        if self.superblock.in_flight.is_some()
            || self.superblock.wanted <= self.superblock.image.sequence
        {
            return Ok(());
        }
        let previous = &self.superblock.image;
        let image = Superblock {
            sequence: previous.sequence + 1,
            parent: previous.checksum(),
            view: self.view,
            log_view: self.log_view,
            view_head_op: self.view_head_op,
            view_start_op: self.view_start_op,
            loss_view: self.loss_view,
            commit_max: self.commit_max,
            incarnation: self.incarnation,
            checkpoint: self.checkpoint,
            view_headers: self.view_headers.clone(),
            clean_shutdown: false,
            ..previous.clone()
        };
        if image.check_succession(previous).is_err() {
            return Err(FatalReason::Invariant("a superblock never goes backwards"));
        }
        let token = self.token();
        self.superblock.in_flight = Some(token);
        self.superblock.image = image.clone();
        self.out.push(Output::Superblock {
            token,
            image: Box::new(image),
        });
        Ok(())
    }

    pub(in crate::replica) fn on_superblock_written(&mut self, token: u64) -> Flow {
        if self.superblock.in_flight != Some(token) {
            return Err(FatalReason::Invariant("a token is completed once"));
        }
        self.superblock.in_flight = None;
        self.superblock.durable = self.superblock.image.clone();
        self.cut_journal();
        self.on_checkpoint_recorded();
        match self.status {
            Status::ViewChange => self.send_do_view_change()?,
            Status::Starting => self.try_start()?,
            Status::Adopting => self.finish_adoption()?,
            Status::Normal | Status::Recovering | Status::Halted => {}
        }
        self.try_acknowledge(false)
    }

    /// Cut the journal where a durable superblock, or the rules, allow the cut.
    pub(in crate::replica) fn cut_journal(&mut self) {
        if !self.log.has_remnants() {
            return;
        }
        let durable = self.superblock.durable_sequence();
        if let Some(from_op) = self.log.cut(|sequence| may_cut(durable, sequence)) {
            let token = self.token();
            self.truncating.push_back(token);
            self.out.push(Output::Truncate { token, from_op });
        }
    }
}
