//! State transfer service for other replicas: the durable checkpoint, in chunks.

use headrace_buffer::Slice;

use crate::frame::Header;
use crate::frame::area::{RequestChunk, RequestState, StateManifest};
use crate::frame::body::manifest::{self, Artifact};
use crate::rules::Rules;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    pub(crate) fn on_request_state(&mut self, header: &Header, area: RequestState) {
        // Only a checkpoint that survives a crash of this replica may be served.
        let checkpoint = *self.superblock.durable_checkpoint();
        if checkpoint.op == 0 || checkpoint.op < area.op_min {
            if self.log.commit_min() >= area.op_min {
                self.checkpoints.demand();
                self.consider_checkpoint();
            }
            return;
        }
        let artifact = Artifact {
            kind: 0,
            flags: 0,
            id: checkpoint.artifact,
            len: checkpoint.len,
            digest: checkpoint.digest,
            frontier: checkpoint.op,
        };
        let answer = StateManifest {
            nonce: area.nonce,
            checkpoint_id: checkpoint.id,
            checkpoint_op: checkpoint.op,
            artifacts: 1,
        };
        let body = Slice::from_vec(manifest::encode(&checkpoint.header, &[artifact]));
        self.outbox.send(header.replica, answer, body);
    }

    pub(crate) fn on_request_chunk(&mut self, header: &Header, area: RequestChunk) {
        let durable = self.superblock.durable_checkpoint();
        let (peer, outbox) = (header.replica, &mut self.outbox);
        if self.transfers.serve(peer, area, durable, outbox) {
            self.checkpoints.serve(self.moment.ns());
        }
    }
}
