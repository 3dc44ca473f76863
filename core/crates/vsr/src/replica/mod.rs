//! One replica of one replicated log.
//!
//! The protocol is Viewstamped Replication Revisited (Liskov & Cowling 2012) with the changes explained in
//! `PROTOCOL.md` of this crate. Each directory holds a part of the protocol, each file one phase.

mod durable;
mod flow;
mod log;
mod member;
mod normal;
mod outbox;
mod recent;
mod recovery;
mod release;
mod repair;
mod requests;
mod state_transfer;
mod step;
mod timers;
mod view;
mod view_changes;

use crate::api::Report;
use crate::clients::ClientTable;
use crate::frame::PrepareHeader;
use crate::rules::{Rules, Standard};

pub use member::OpenError;
pub use recent::{Input, InputKind};
pub use requests::responder::REQUEST_REUSED;

use durable::checkpoints::Checkpoints;
use durable::superblock_order::SuperblockOrder;
use log::Log;
use member::Member;
use normal::execution::Execution;
use normal::pipeline::Pipeline;
use outbox::Outbox;
use recent::Recent;
use repair::Repair;
use requests::admission::Admission;
use requests::reads::Reads;
use state_transfer::transfers::Transfers;
use timers::{Moment, Timers};
use view::View;
use view_changes::evidence::ViewChange;

/// One replica of one replicated log: a step function without I/O, clocks or threads.
///
/// Its fields are values with rules of their own, which do not know each other except as arguments. The methods of the
/// replica itself are the reactions to frames, completions and timeouts: they pass values from one part to the next.
#[derive(Debug)]
pub struct Replica<R: Rules = Standard> {
    member: Member<R>,
    moment: Moment,
    timers: Timers,
    outbox: Outbox,
    recent: Recent,
    view: View,
    superblock: SuperblockOrder,
    log: Log,
    execution: Execution,
    checkpoints: Checkpoints,
    admission: Admission,
    pipeline: Pipeline,
    reads: Reads,
    view_change: ViewChange,
    repair: Repair,
    transfers: Transfers,
}

impl<R: Rules> Replica<R> {
    /// State of the replica for inspection and tests.
    pub fn report(&self) -> Report {
        Report {
            status: self.view.status(),
            view: self.view.number(),
            log_view: self.view.log_view(),
            primary: self.view.primary(),
            op: self.log.head(),
            commit_min: self.log.commit_min(),
            commit_max: self.log.commit_max(),
            checkpoint_op: self.superblock.durable_checkpoint().op,
            log_floor: self.log.floor(),
            link_floor: self.log.link_floor(),
            syncing: self.transfers.is_receiving(),
            release: self.log.release_in_force(),
            queued: self.admission.queued(),
            clients: self.clients().len(),
        }
    }

    /// Client table, for tests and inspection.
    pub fn clients(&self) -> &ClientTable {
        self.execution.clients()
    }

    /// Last inputs, oldest first: for the analysis after [`Output::Fatal`](crate::api::Output::Fatal).
    pub fn recent_inputs(&self) -> impl Iterator<Item = &Input> {
        self.recent.iter()
    }

    /// Header of an operation of the logical log, if it is known.
    pub fn header(&self, op: u64) -> Option<&PrepareHeader> {
        self.log.header(op)
    }
}
