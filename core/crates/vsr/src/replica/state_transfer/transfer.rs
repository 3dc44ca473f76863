//! State transfer: adoption of another replica's checkpoint when the log does not reach far enough (VRR 5.2).

use headrace_buffer::Slice;

use crate::api::{DropReason, FatalReason, Notice, Output, Status};
use crate::clients::ClientTable;
use crate::frame::Frame;
use crate::frame::area::{Chunk, RequestChunk, RequestState, StateManifest, VoteReason};
use crate::frame::body::manifest;
use crate::rules::Rules;
use crate::superblock::Checkpoint;

use crate::replica::{Flow, Replica};

/// Number of unanswered requests after which the transfer is aborted, to be retried with another replica.
const STALLS_MAX: u32 = 5;

/// State transfer in progress.
#[derive(Debug)]
pub(in crate::replica) struct Transfer {
    peer: u8,
    nonce: u128,
    checkpoint: Checkpoint,
    received: u64,
    stalls: u32,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Fetching,
    Writing {
        token: u64,
        length: u64,
    },
    /// Complete; waits until the state machine is idle between two operations.
    Complete,
    Installing {
        token: u64,
    },
    /// Installed; the superblock that names it is not durable yet.
    Recording,
}

impl<R: Rules> Replica<R> {
    pub(in crate::replica) fn installing(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| {
            matches!(transfer.stage, Stage::Installing { .. } | Stage::Complete)
        })
    }

    /// Ask a replica for a newer checkpoint, or the others if its checkpoint has arrived damaged before.
    pub(in crate::replica) fn consider_transfer(&mut self, peer: u8) {
        if self.transfer.is_some() || !self.in_log_view() {
            return;
        }
        let area = RequestState {
            nonce: self.view_changing.nonce,
            op_min: self.commit_min + 1,
        };
        if !self.damaged_sources.contains(&peer) {
            return self.send(peer, area, Slice::default());
        }
        if self.damaged_sources.len() + 1 >= usize::from(self.config.replica_count) {
            self.damaged_sources.clear();
        }
        for other in self.peers() {
            if !self.damaged_sources.contains(&other) {
                self.send(other, area, Slice::default());
            }
        }
    }

    pub(in crate::replica) fn on_state_manifest(
        &mut self,
        frame: &Frame,
        area: StateManifest,
    ) -> Flow {
        let header = frame.header;
        self.hear_checkpoint(header.replica, area.checkpoint_op);
        if header.view > self.view {
            // Operations committed in a later view belong to a log that this replica has not adopted yet.
            self.ask_for_view(header.view);
            return Ok(());
        }
        if self.transfer.is_some()
            || !self.in_log_view()
            || area.nonce != self.view_changing.nonce
            || area.checkpoint_op <= self.commit_min
            || (self.status == Status::Starting && area.checkpoint_op > self.head)
        {
            return Ok(());
        }
        let artifact = match manifest::decode(&frame.body) {
            Ok((prepare, artifacts)) if prepare.op() == area.checkpoint_op => artifacts
                .first()
                .copied()
                .filter(|artifact| artifacts.len() == 1 && artifact.len > 0)
                .map(|artifact| (prepare, artifact)),
            _ => None,
        };
        let Some((prepare, artifact)) = artifact else {
            self.dropped(DropReason::Malformed);
            return Ok(());
        };
        self.must_know(&prepare)?;
        if area.checkpoint_op >= self.link_floor
            && self
                .header(area.checkpoint_op)
                .is_some_and(|held| held.checksum != prepare.checksum)
        {
            return Err(FatalReason::Invariant(
                "checkpoints and the log are of one history",
            ));
        }
        self.transfer = Some(Transfer {
            peer: header.replica,
            nonce: u128::from(self.random.u64(1..)),
            checkpoint: Checkpoint {
                op: area.checkpoint_op,
                header: prepare,
                id: area.checkpoint_id,
                artifact: artifact.id,
                len: artifact.len,
                digest: artifact.digest,
            },
            received: 0,
            stalls: 0,
            stage: Stage::Fetching,
        });
        if self.status == Status::Starting {
            // A primary that lags this far behind must not block the group.
            self.vote(VoteReason::Forfeit);
        }
        self.request_chunk();
        Ok(())
    }

    fn request_chunk(&mut self) {
        let Some(transfer) = &self.transfer else {
            return;
        };
        let rest = transfer.checkpoint.len - transfer.received;
        let length = rest.min(u64::from(self.config.chunk_bytes));
        let area = RequestChunk {
            nonce: transfer.nonce,
            id: transfer.checkpoint.artifact,
            offset: transfer.received,
            len: u32::try_from(length).unwrap_or(self.config.chunk_bytes),
        };
        let peer = transfer.peer;
        self.send(peer, area, Slice::default());
        self.arm_transfer();
    }

    pub(in crate::replica) fn on_chunk(&mut self, frame: &Frame, area: Chunk) {
        let chunk_bytes = u64::from(self.config.chunk_bytes);
        let Some(transfer) = &mut self.transfer else {
            return;
        };
        let rest = transfer.checkpoint.len - transfer.received;
        let expected = rest.min(chunk_bytes);
        if transfer.stage != Stage::Fetching
            || area.nonce != transfer.nonce
            || area.id != transfer.checkpoint.artifact
            || area.offset != transfer.received
            || frame.body.len() as u64 != expected
        {
            return;
        }
        let (op, offset) = (transfer.checkpoint.op, transfer.received);
        self.next_token += 1;
        let token = self.next_token;
        transfer.stage = Stage::Writing {
            token,
            length: expected,
        };
        transfer.stalls = 0;
        self.timers.transfer.stop();
        self.out.push(Output::WriteChunk {
            token,
            op,
            offset,
            bytes: frame.body.clone(),
        });
    }

    pub(in crate::replica) fn on_chunk_written(&mut self, written: u64) -> Flow {
        let Some(transfer) = &mut self.transfer else {
            return Err(FatalReason::Invariant("a token is completed once"));
        };
        let Stage::Writing { token, length } = transfer.stage else {
            return Err(FatalReason::Invariant("a token is completed once"));
        };
        if token != written {
            return Err(FatalReason::Invariant("a token is completed once"));
        }
        transfer.received += length;
        if transfer.received < transfer.checkpoint.len {
            transfer.stage = Stage::Fetching;
            self.request_chunk();
        } else {
            transfer.stage = Stage::Complete;
            self.try_install();
        }
        self.advance()
    }

    /// Install a complete checkpoint once the state machine is idle.
    pub(in crate::replica) fn try_install(&mut self) {
        let ready = self
            .transfer
            .as_ref()
            .is_some_and(|transfer| transfer.stage == Stage::Complete);
        if !ready || self.executing.is_some() || self.checkpointing.is_running() {
            return;
        }
        let token = self.token();
        let Some(transfer) = &mut self.transfer else {
            return;
        };
        if transfer.checkpoint.op <= self.commit_min {
            self.transfer = None;
            return;
        }
        transfer.stage = Stage::Installing { token };
        self.out.push(Output::Install {
            token,
            op: transfer.checkpoint.op,
            length: transfer.checkpoint.len,
            digest: transfer.checkpoint.digest,
        });
    }

    pub(in crate::replica) fn on_installed(&mut self, token: u64, clients: Option<Slice>) -> Flow {
        let Some(transfer) = &mut self.transfer else {
            return Err(FatalReason::Invariant("a token is completed once"));
        };
        if transfer.stage != (Stage::Installing { token }) {
            return Err(FatalReason::Invariant("a token is completed once"));
        }
        let Some(clients) = clients else {
            // Damaged in transit or at its source: start over, with another source if one exists.
            let source = transfer.peer;
            self.damaged_sources.insert(source);
            self.transfer = None;
            return self.advance();
        };
        transfer.stage = Stage::Recording;
        let checkpoint = transfer.checkpoint;
        self.damaged_sources.clear();
        let Ok(table) = ClientTable::decode(&clients) else {
            return Err(FatalReason::Invariant(
                "a verified client table is readable",
            ));
        };
        self.clients = table;
        self.continue_from(&checkpoint);
        self.advance()
    }

    /// Continue the log from a transferred state. The journal keeps its records until the superblock is durable: after
    /// a crash before that, recovery starts from the old checkpoint.
    fn continue_from(&mut self, checkpoint: &Checkpoint) {
        let op = checkpoint.op;
        self.checkpoint = *checkpoint;
        self.checkpointing.remember(op, checkpoint.id);
        self.log.forget_through(op);
        self.commit_min = op;
        self.commit_max = self.commit_max.max(op);
        self.head = self.head.max(op);
        self.early = self.early.split_off(&(self.head + 1));
        if self.link_floor <= op {
            self.link_floor = op + 1;
        }
        self.link_floor = self.link_floor.min(self.head + 1);
        self.log_floor = self.log_floor.max(op + 1);
        for ticket in self.admission.forget_covered(op) {
            self.report_unknown_outcome(ticket);
        }
        self.persist();
    }

    pub(in crate::replica) fn on_transfer_recorded(&mut self, durable: u64) {
        let recorded = self.transfer.as_ref().is_some_and(|transfer| {
            transfer.stage == Stage::Recording && transfer.checkpoint.op <= durable
        });
        if recorded {
            self.transfer = None;
            self.notice(Notice::StateTransferred { op: durable });
            self.out.push(Output::GcLog {
                below_op: self.log_floor,
            });
        }
    }

    pub(in crate::replica) fn on_transfer_timeout(&mut self) {
        let Some(transfer) = &mut self.transfer else {
            return;
        };
        if transfer.stage != Stage::Fetching {
            return;
        }
        transfer.stalls += 1;
        if transfer.stalls > STALLS_MAX {
            self.transfer = None;
        } else {
            self.request_chunk();
        }
    }
}
