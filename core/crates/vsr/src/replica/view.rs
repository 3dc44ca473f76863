//! View of a replica, its status in it, and the transitions between them.

use alloc::vec::Vec;

use crate::api::{Notice, Status};
use crate::frame::{NO_REPLICA, PrepareHeader};
use crate::replica::flow::{Flow, must};
use crate::superblock::RecordedView;

/// View of a replica.
#[derive(Debug)]
pub(crate) struct View {
    /// Part that the next superblock records. Neither the number nor the log view ever decreases, and the log view is
    /// never ahead: it equals the number once the log of the view is decided here, and is below it during a view change.
    record: RecordedView,
    status: Status,
    /// True if this primary has abdicated: it keeps its view and serves no client. Only a primary in status `Normal` does.
    abdicated: bool,
    /// Index of this replica, below `members`.
    replica: u8,
    members: u8,
}

impl View {
    pub(crate) fn opened(record: RecordedView, replica: u8, members: u8) -> Self {
        Self {
            record,
            status: Status::Recovering,
            abdicated: false,
            replica,
            members,
        }
    }

    /// Index of this replica.
    pub(crate) fn replica(&self) -> u8 {
        self.replica
    }

    /// Number of members of the group.
    pub(crate) fn members(&self) -> u8 {
        self.members
    }

    pub(crate) fn number(&self) -> u32 {
        self.record.number
    }

    /// Last view whose log this replica has decided or adopted.
    pub(crate) fn log_view(&self) -> u32 {
        self.record.log_view
    }

    /// Head with which the log view began.
    pub(crate) fn start_op(&self) -> u64 {
        self.record.start_op
    }

    pub(crate) fn loss_view(&self) -> u32 {
        self.record.loss_view
    }

    pub(crate) fn status(&self) -> Status {
        self.status
    }

    /// State to record in a superblock.
    pub(crate) fn record(&self) -> &RecordedView {
        &self.record
    }

    pub(crate) fn primary_of(&self, view: u32) -> u8 {
        let index = view % u32::from(self.members);
        u8::try_from(index).expect("below the number of members")
    }

    pub(crate) fn primary(&self) -> u8 {
        self.primary_of(self.number())
    }

    pub(crate) fn is_primary(&self) -> bool {
        self.primary() == self.replica
    }

    /// Return whether this replica is the primary of a view whose log it has decided and which it serves.
    pub(crate) fn leads(&self) -> bool {
        self.status == Status::Normal && self.is_primary()
    }

    /// Return whether this replica leads and has not abdicated.
    pub(crate) fn serves(&self) -> bool {
        self.leads() && !self.abdicated
    }

    pub(crate) fn has_abdicated(&self) -> bool {
        self.abdicated
    }

    pub(crate) fn follows(&self) -> bool {
        self.status == Status::Normal && !self.is_primary()
    }

    /// Return whether the log is that of the current view, so that it may be linked, repaired and executed.
    pub(crate) fn has_log(&self) -> bool {
        matches!(self.status, Status::Normal | Status::Starting)
    }

    /// Return whether this replica has decided or adopted the log of its view, recorded or not.
    pub(crate) fn knows_log(&self) -> bool {
        self.has_log() || self.status == Status::Adopting
    }

    /// Replica to which a client should turn: the primary of the view, unless that is this replica and it does not
    /// serve.
    pub(crate) fn primary_hint(&self) -> u8 {
        if self.is_primary() && !self.serves() {
            NO_REPLICA
        } else {
            self.primary()
        }
    }

    pub(crate) fn notice(&self) -> Notice {
        Notice::View {
            view: self.number(),
            status: self.status,
        }
    }

    /// Forget what belongs to the view that is being left.
    pub(crate) fn leave(&mut self) {
        self.abdicated = false;
    }

    /// Move to a later view, whose log is not known yet.
    pub(crate) fn enter(&mut self, number: u32) {
        self.record.number = number;
        self.status = Status::ViewChange;
    }

    /// Begin the view as its primary, with a log that has been decided.
    pub(crate) fn start(&mut self, head: u64, loss_view: u32) {
        self.status = Status::Starting;
        self.record.log_view = self.record.number;
        self.record.start_op = head;
        self.record.loss_view = loss_view;
    }

    /// Take over a view and its log as a backup.
    pub(crate) fn adopt(&mut self, number: u32, start_op: u64, loss_view: u32) {
        self.status = Status::Adopting;
        self.record.number = number;
        self.record.log_view = number;
        self.record.start_op = start_op;
        self.record.loss_view = loss_view;
    }

    /// Serve or follow the view, whose log is recorded.
    pub(crate) fn begin(&mut self) {
        self.status = Status::Normal;
    }

    /// Serve as the only member: every operation of the log is committed.
    pub(crate) fn begin_alone(&mut self, head: u64) {
        self.record.start_op = head;
        self.status = Status::Normal;
    }

    pub(crate) fn abdicate(&mut self) {
        self.abdicated = true;
    }

    pub(crate) fn halt(&mut self) {
        self.status = Status::Halted;
    }

    /// Record the suffix of the log for the view: headers from its head down.
    pub(crate) fn record_suffix(&mut self, head: u64, headers: Vec<PrepareHeader>) {
        self.record.head_op = head;
        self.record.headers = headers;
    }

    /// Check the invariants; number and log view were `before`.
    pub(crate) fn check(&self, before: (u32, u32)) -> Flow {
        let RecordedView {
            number, log_view, ..
        } = self.record;
        must(number >= before.0, "the view never goes back")?;
        must(log_view >= before.1, "the log view never goes back")?;
        must(log_view <= number, "the log view is not ahead")?;
        match self.status {
            Status::Normal | Status::Starting | Status::Adopting => {
                must(log_view == number, "a decided log is that of the view")
            }
            Status::ViewChange => must(
                log_view < number,
                "a view without a log is not the log's view",
            ),
            Status::Recovering | Status::Halted => Ok(()),
        }
    }
}
