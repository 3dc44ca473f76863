//! State transfers: the one that this replica receives, and the chunks that it sends to others.

use alloc::collections::{BTreeMap, BTreeSet};

use headrace_buffer::Slice;

use crate::api::{FatalReason, Output};
use crate::frame::Frame;
use crate::frame::area::{Chunk, RequestChunk, RequestState};
use crate::replica::flow::broken;
use crate::replica::outbox::Outbox;
use crate::superblock::Checkpoint;

/// Number of unanswered requests after which the transfer is aborted, to be retried with another replica.
const STALLS_MAX: u32 = 5;

/// Maximum number of chunks read concurrently for other replicas.
const LOADS_MAX: usize = 16;

/// State transfer in progress.
#[derive(Debug)]
struct Transfer {
    peer: u8,
    nonce: u128,
    checkpoint: Checkpoint,
    /// Number of bytes that were written: at most the length of the checkpoint.
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

/// Chunk that is being read for another replica.
#[derive(Debug, Clone, Copy)]
struct ChunkLoad {
    peer: u8,
    question: RequestChunk,
}

#[derive(Debug)]
pub(crate) struct Transfers {
    /// Transfer to this replica: of a checkpoint above the newest executed operation, until it is recorded.
    incoming: Option<Transfer>,
    /// Members whose checkpoints arrived damaged. Never all others: then each gets another chance.
    damaged: BTreeSet<u8>,
    /// Chunks for other replicas by token: at most [`LOADS_MAX`].
    loads: BTreeMap<u64, ChunkLoad>,
    chunk_bytes: u32,
}

impl Transfers {
    pub(crate) fn new(chunk_bytes: u32) -> Self {
        Self {
            incoming: None,
            damaged: BTreeSet::new(),
            loads: BTreeMap::new(),
            chunk_bytes,
        }
    }

    /// Return whether this replica receives a state.
    pub(crate) fn is_receiving(&self) -> bool {
        self.incoming.is_some()
    }

    /// Return whether a received state is to replace that of the state machine, which must not change meanwhile.
    pub(crate) fn is_installing(&self) -> bool {
        self.incoming.as_ref().is_some_and(|transfer| {
            matches!(transfer.stage, Stage::Installing { .. } | Stage::Complete)
        })
    }

    /// Ask a replica for a newer checkpoint, or the others if its checkpoint has arrived damaged before.
    pub(crate) fn ask(&mut self, peer: u8, question: RequestState, outbox: &mut Outbox) {
        if !self.damaged.contains(&peer) {
            return outbox.send(peer, question, Slice::default());
        }
        if self.damaged.len() >= outbox.peers().count() {
            self.damaged.clear();
        }
        for other in outbox.peers() {
            if !self.damaged.contains(&other) {
                outbox.send(other, question, Slice::default());
            }
        }
    }

    /// Begin to receive a checkpoint from a peer.
    pub(crate) fn begin(&mut self, peer: u8, checkpoint: &Checkpoint, nonce: u64) {
        self.incoming = Some(Transfer {
            peer,
            nonce: u128::from(nonce),
            checkpoint: *checkpoint,
            received: 0,
            stalls: 0,
            stage: Stage::Fetching,
        });
    }

    /// Request the next chunk. Returns whether one is to come.
    pub(crate) fn request_chunk(&self, outbox: &mut Outbox) -> bool {
        let Some(transfer) = &self.incoming else {
            return false;
        };
        let rest = transfer.checkpoint.len - transfer.received;
        let length = rest.min(u64::from(self.chunk_bytes));
        let area = RequestChunk {
            nonce: transfer.nonce,
            id: transfer.checkpoint.artifact,
            offset: transfer.received,
            len: u32::try_from(length).unwrap_or(self.chunk_bytes),
        };
        outbox.send(transfer.peer, area, Slice::default());
        true
    }

    /// Write a chunk that was requested. Returns whether it is the expected one.
    pub(crate) fn write(&mut self, frame: &Frame, area: Chunk, outbox: &mut Outbox) -> bool {
        let Some(transfer) = &mut self.incoming else {
            return false;
        };
        let rest = transfer.checkpoint.len - transfer.received;
        let expected = rest.min(u64::from(self.chunk_bytes));
        if transfer.stage != Stage::Fetching
            || area.nonce != transfer.nonce
            || area.id != transfer.checkpoint.artifact
            || area.offset != transfer.received
            || frame.body.len() as u64 != expected
        {
            return false;
        }
        let token = outbox.token();
        transfer.stage = Stage::Writing {
            token,
            length: expected,
        };
        transfer.stalls = 0;
        outbox.push(Output::WriteChunk {
            token,
            op: transfer.checkpoint.op,
            offset: transfer.received,
            bytes: frame.body.clone(),
        });
        true
    }

    /// Complete the write of a chunk. Returns whether the checkpoint is complete now.
    pub(crate) fn written(&mut self, written: u64) -> Result<bool, FatalReason> {
        let Some(transfer) = &mut self.incoming else {
            return broken("a token is completed once");
        };
        match transfer.stage {
            Stage::Writing { token, length } if token == written => transfer.received += length,
            _ => return broken("a token is completed once"),
        }
        let is_complete = transfer.received >= transfer.checkpoint.len;
        transfer.stage = if is_complete {
            Stage::Complete
        } else {
            Stage::Fetching
        };
        Ok(is_complete)
    }

    /// Install a complete checkpoint, now that the state machine is idle; one that is not above `commit_min` is dropped.
    pub(crate) fn install(&mut self, commit_min: u64, outbox: &mut Outbox) {
        let Some(transfer) = &mut self.incoming else {
            return;
        };
        if transfer.stage != Stage::Complete {
            return;
        }
        let token = outbox.token();
        if transfer.checkpoint.op <= commit_min {
            self.incoming = None;
            return;
        }
        transfer.stage = Stage::Installing { token };
        outbox.push(Output::Install {
            token,
            op: transfer.checkpoint.op,
            length: transfer.checkpoint.len,
            digest: transfer.checkpoint.digest,
        });
    }

    /// Complete the installation. Returns the checkpoint, or none if it `is_damaged`: in transit or at its source, so
    /// that the transfer starts over, with another source if one exists.
    pub(crate) fn installed(
        &mut self,
        token: u64,
        is_damaged: bool,
    ) -> Result<Option<Checkpoint>, FatalReason> {
        let Some(transfer) = &mut self.incoming else {
            return broken("a token is completed once");
        };
        if transfer.stage != (Stage::Installing { token }) {
            return broken("a token is completed once");
        }
        if is_damaged {
            self.damaged.insert(transfer.peer);
            self.incoming = None;
            return Ok(None);
        }
        transfer.stage = Stage::Recording;
        self.damaged.clear();
        Ok(Some(transfer.checkpoint))
    }

    /// End the transfer if the superblock that names its checkpoint, or a later one, is durable. Returns whether it has
    /// ended.
    pub(crate) fn recorded(&mut self, durable: u64) -> bool {
        let is_recorded = self.incoming.as_ref().is_some_and(|transfer| {
            transfer.stage == Stage::Recording && transfer.checkpoint.op <= durable
        });
        if is_recorded {
            self.incoming = None;
        }
        is_recorded
    }

    /// Count an unanswered request, and abort the transfer after too many. Returns whether a chunk is to be requested
    /// again.
    pub(crate) fn stalled(&mut self) -> bool {
        let Some(transfer) = &mut self.incoming else {
            return false;
        };
        if transfer.stage != Stage::Fetching {
            return false;
        }
        transfer.stalls += 1;
        if transfer.stalls > STALLS_MAX {
            self.incoming = None;
        }
        self.incoming.is_some()
    }

    /// Read a chunk of the durable checkpoint for another replica. Returns whether that has begun.
    pub(crate) fn serve(
        &mut self,
        peer: u8,
        question: RequestChunk,
        durable: &Checkpoint,
        outbox: &mut Outbox,
    ) -> bool {
        let is_within = question
            .offset
            .checked_add(u64::from(question.len))
            .is_some_and(|end| end <= durable.len);
        if question.id != durable.artifact
            || durable.op == 0
            || !is_within
            || self.loads.len() >= LOADS_MAX
        {
            return false;
        }
        let token = outbox.token();
        self.loads.insert(token, ChunkLoad { peer, question });
        outbox.push(Output::ReadChunk {
            token,
            op: durable.op,
            offset: question.offset,
            length: question.len,
        });
        true
    }

    /// Send a chunk that was read for another replica.
    pub(crate) fn send(&mut self, token: u64, bytes: Option<Slice>, outbox: &mut Outbox) {
        if let Some(load) = self.loads.remove(&token)
            && let Some(bytes) = bytes
            && bytes.len() == load.question.len as usize
        {
            let area = Chunk {
                nonce: load.question.nonce,
                id: load.question.id,
                offset: load.question.offset,
                len: load.question.len,
            };
            outbox.send(load.peer, area, bytes);
        }
    }
}
