//! Order of superblock writes before the frames and actions that depend on them.
//!
//! A change of view, log view or checkpoint requests a superblock and remembers its sequence number. Dependent actions
//! wait until that superblock, or a later one, is durable. One write is in flight at a time and the next one carries
//! the newest state, so many changes may share one write. An action that was overtaken by a later change finds that its
//! view or status has changed and does nothing.

use alloc::boxed::Box;

use crate::api::Output;
use crate::replica::flow::{Flow, broken};
use crate::replica::log::Log;
use crate::replica::outbox::Outbox;
use crate::replica::view::View;
use crate::rules::{DurableViews, Rules};
use crate::superblock::{Checkpoint, Superblock};

#[derive(Debug)]
pub(crate) struct SuperblockOrder {
    /// Last image given to the host, durable or in flight. Each has the sequence number above the one before it.
    image: Superblock,
    /// Newest durable image: what a crash would leave of this replica. At most one write behind `image`.
    durable: Superblock,
    /// Token of the write of `image`, until it is durable.
    in_flight: Option<u64>,
    /// Highest sequence number that an action waits for, at most one above that of `image`.
    wanted: u64,
}

impl SuperblockOrder {
    pub(crate) fn opened(image: Superblock) -> Self {
        Self {
            durable: image.clone(),
            wanted: image.sequence,
            image,
            in_flight: None,
        }
    }

    pub(crate) fn durable_sequence(&self) -> u64 {
        self.durable.sequence
    }

    /// Log view that a crash would leave.
    pub(crate) fn durable_log_view(&self) -> u32 {
        self.durable.view.log_view
    }

    /// Checkpoint from which this replica would recover after a crash.
    pub(crate) fn durable_checkpoint(&self) -> &Checkpoint {
        &self.durable.checkpoint
    }

    /// Views that decide about acknowledgements.
    pub(crate) fn views(&self, view: &View, syncing: bool) -> DurableViews {
        DurableViews {
            view: view.number(),
            durable_view: self.durable.view.number,
            durable_log_view: self.durable_log_view(),
            syncing,
        }
    }

    /// Request a superblock with the state at the end of this step. Returns its sequence number.
    pub(crate) fn request(&mut self) -> u64 {
        self.wanted = self.image.sequence + 1;
        self.wanted
    }

    /// Return whether an action that depends on a superblock may be carried out.
    pub(crate) fn covers(&self, rules: &impl Rules, sequence: u64) -> bool {
        rules.superblock_covers(self.durable_sequence(), sequence)
    }

    /// Give the host the newest state, if an action waits for it. Called at the end of a step.
    pub(crate) fn flush(&mut self, view: &View, log: &Log, outbox: &mut Outbox) -> Flow {
        if self.in_flight.is_some() || self.wanted <= self.image.sequence {
            return Ok(());
        }
        let image = Superblock {
            sequence: self.image.sequence + 1,
            parent: self.image.checksum(),
            view: view.record().clone(),
            commit_max: log.commit_max(),
            incarnation: outbox.origin().incarnation,
            checkpoint: *log.checkpoint(),
            clean_shutdown: false,
            ..self.image.clone()
        };
        if image.check_succession(&self.image).is_err() {
            return broken("a superblock never goes backwards");
        }
        let token = outbox.token();
        self.in_flight = Some(token);
        self.image = image.clone();
        outbox.push(Output::Superblock {
            token,
            image: Box::new(image),
        });
        Ok(())
    }

    /// Complete the write in flight.
    pub(crate) fn written(&mut self, token: u64) -> Flow {
        if self.in_flight != Some(token) {
            return broken("a token is completed once");
        }
        self.in_flight = None;
        self.durable = self.image.clone();
        Ok(())
    }
}
