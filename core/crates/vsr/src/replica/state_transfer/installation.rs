//! State transfer: adoption of another replica's checkpoint when the log does not reach far enough (VRR 5.2).

use headrace_buffer::Slice;

use crate::api::{DropReason, Outcome, Status};
use crate::clients::ClientTable;
use crate::frame::Frame;
use crate::frame::area::{Chunk, RequestState, StateManifest, VoteReason};
use crate::frame::body::manifest;
use crate::replica::flow::{Flow, broken};
use crate::rules::Rules;
use crate::superblock::Checkpoint;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    /// Ask a replica for a checkpoint that is newer than what was executed here.
    pub(crate) fn consider_transfer(&mut self, peer: u8) {
        if self.transfers.is_receiving() || !self.view.has_log() {
            return;
        }
        let question = RequestState {
            nonce: self.view_change.nonce(),
            op_min: self.log.commit_min() + 1,
        };
        self.transfers.ask(peer, question, &mut self.outbox);
    }

    pub(crate) fn on_state_manifest(&mut self, frame: &Frame, area: StateManifest) -> Flow {
        let header = frame.header;
        self.checkpoints.hear(header.replica, area.checkpoint_op);
        if header.view > self.view.number() {
            // Operations committed in a later view belong to a log that this replica has not adopted yet.
            self.ask_for_view(header.view);
            return Ok(());
        }
        let is_starting = self.view.status() == Status::Starting;
        if self.transfers.is_receiving()
            || !self.view.has_log()
            || area.nonce != self.view_change.nonce()
            || area.checkpoint_op <= self.log.commit_min()
            || (is_starting && area.checkpoint_op > self.log.head())
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
            self.outbox.dropped(DropReason::Malformed);
            return Ok(());
        };
        self.log.must_know(&prepare)?;
        if area.checkpoint_op >= self.log.link_floor()
            && self
                .log
                .header(area.checkpoint_op)
                .is_some_and(|held| held.checksum != prepare.checksum)
        {
            return broken("checkpoints and the log are of one history");
        }
        let checkpoint = Checkpoint {
            op: area.checkpoint_op,
            header: prepare,
            id: area.checkpoint_id,
            artifact: artifact.id,
            len: artifact.len,
            digest: artifact.digest,
        };
        let nonce = self.moment.nonce();
        self.transfers.begin(header.replica, &checkpoint, nonce);
        if is_starting {
            // A primary that lags this far behind must not block the group.
            self.vote(VoteReason::Forfeit);
        }
        self.request_chunk();
        Ok(())
    }

    fn request_chunk(&mut self) {
        if self.transfers.request_chunk(&mut self.outbox) {
            self.timers.transfer.arm(&mut self.moment);
        }
    }

    pub(crate) fn on_chunk(&mut self, frame: &Frame, area: Chunk) {
        if self.transfers.write(frame, area, &mut self.outbox) {
            self.timers.transfer.stop();
        }
    }

    pub(crate) fn on_chunk_written(&mut self, token: u64) -> Flow {
        if self.transfers.written(token)? {
            self.try_install();
        } else {
            self.request_chunk();
        }
        self.advance()
    }

    /// Install a complete checkpoint once the state machine is idle.
    pub(crate) fn try_install(&mut self) {
        if self.execution.is_idle() && !self.checkpoints.is_running() {
            self.transfers
                .install(self.log.commit_min(), &mut self.outbox);
        }
    }

    pub(crate) fn on_installed(&mut self, token: u64, clients: Option<Slice>) -> Flow {
        let installed = self.transfers.installed(token, clients.is_none())?;
        if let (Some(checkpoint), Some(clients)) = (installed, clients) {
            let Ok(table) = ClientTable::decode(&clients) else {
                return broken("a verified client table is readable");
            };
            self.execution.replace(table);
            self.checkpoints.remember(checkpoint.op, checkpoint.id);
            self.log.continue_from(&checkpoint);
            for request_id in self.admission.forget_covered(checkpoint.op) {
                self.outbox.answer_proposal(request_id, Outcome::Unknown);
            }
            self.superblock.request();
        }
        self.advance()
    }

    pub(crate) fn on_transfer_timeout(&mut self) {
        if self.transfers.stalled() {
            self.request_chunk();
        }
    }
}
