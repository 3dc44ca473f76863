//! State transfer service for other replicas: the durable checkpoint, in chunks.

use headrace_buffer::Slice;

use crate::api::Output;
use crate::frame::Header;
use crate::frame::area::{Chunk, RequestChunk, RequestState, StateManifest};
use crate::frame::body::manifest::{self, Artifact};
use crate::rules::Rules;

use crate::replica::Replica;

/// Maximum number of chunks read concurrently for other replicas.
const LOADS_MAX: usize = 16;

/// Chunk that is being read for another replica.
#[derive(Debug, Clone, Copy)]
pub(in crate::replica) struct ChunkLoad {
    peer: u8,
    question: RequestChunk,
}

impl<R: Rules> Replica<R> {
    pub(in crate::replica) fn on_request_state(&mut self, header: &Header, area: RequestState) {
        // Only a checkpoint that survives a crash of this replica may be served.
        let checkpoint = self.superblock.durable().checkpoint;
        if checkpoint.op == 0 || checkpoint.op < area.op_min {
            if self.commit_min >= area.op_min {
                self.checkpointing.demand();
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
        self.send(header.replica, answer, body);
    }

    pub(in crate::replica) fn on_request_chunk(&mut self, header: &Header, area: RequestChunk) {
        let checkpoint = self.superblock.durable().checkpoint;
        let within = area
            .offset
            .checked_add(u64::from(area.len))
            .is_some_and(|end| end <= checkpoint.len);
        if area.id != checkpoint.artifact
            || checkpoint.op == 0
            || !within
            || self.transfer_loads.len() >= LOADS_MAX
        {
            return;
        }
        self.checkpointing.serve(self.now.monotonic_ns);
        let token = self.token();
        self.transfer_loads.insert(
            token,
            ChunkLoad {
                peer: header.replica,
                question: area,
            },
        );
        self.out.push(Output::ReadChunk {
            token,
            op: checkpoint.op,
            offset: area.offset,
            length: area.len,
        });
    }

    pub(in crate::replica) fn on_chunk_read(&mut self, token: u64, bytes: Option<Slice>) {
        let Some(load) = self.transfer_loads.remove(&token) else {
            return;
        };
        let Some(bytes) = bytes else {
            return;
        };
        if bytes.len() != load.question.len as usize {
            return;
        }
        let area = Chunk {
            nonce: load.question.nonce,
            id: load.question.id,
            offset: load.question.offset,
            len: load.question.len,
        };
        self.send(load.peer, area, bytes);
    }
}
