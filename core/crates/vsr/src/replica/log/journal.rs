//! Work that the journal has been given and has not completed.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::api::{FatalReason, Output};
use crate::frame::{PIPELINE_MAX, PrepareFrame};
use crate::replica::flow::{Flow, broken};
use crate::replica::outbox::Outbox;

/// Number of operations that may wait while the journal is being cut.
const UNWRITTEN_OPS_MAX: u64 = 4 * PIPELINE_MAX;

/// Operations that the journal is writing.
#[derive(Debug)]
struct Append {
    ops: Vec<u64>,
    bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Journal {
    /// Appends in progress, by token.
    appends: BTreeMap<u64, Append>,
    /// Number of bytes of prepares in `appends`.
    appending_bytes: u64,
    /// Tokens of cuts in progress. Nothing is appended meanwhile: records are written over a cut only after it.
    cuts: BTreeSet<u64>,
    unstored_bytes_max: u64,
}

impl Journal {
    pub(crate) fn new(unstored_bytes_max: u64) -> Self {
        Self {
            appends: BTreeMap::new(),
            appending_bytes: 0,
            cuts: BTreeSet::new(),
            unstored_bytes_max,
        }
    }

    pub(crate) fn is_being_cut(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// Return whether no more prepares should be accepted until some are stored; `unwritten_ops` wait for their append.
    pub(crate) fn is_full(&self, unwritten_ops: usize) -> bool {
        (self.is_being_cut() && unwritten_ops as u64 >= UNWRITTEN_OPS_MAX)
            || self.appending_bytes >= self.unstored_bytes_max
    }

    pub(crate) fn append(&mut self, token: u64, frames: Vec<PrepareFrame>, outbox: &mut Outbox) {
        let append = Append {
            ops: frames.iter().map(|frame| frame.header.op()).collect(),
            bytes: frames.iter().map(|frame| frame.size_bytes() as u64).sum(),
        };
        self.appending_bytes += append.bytes;
        self.appends.insert(token, append);
        outbox.push(Output::Append { token, frames });
    }

    /// Complete an append. Returns its operations.
    pub(crate) fn appended(&mut self, token: u64) -> Result<Vec<u64>, FatalReason> {
        let Some(append) = self.appends.remove(&token) else {
            return broken("a token is completed once");
        };
        self.appending_bytes -= append.bytes;
        Ok(append.ops)
    }

    pub(crate) fn cut(&mut self, from_op: u64, outbox: &mut Outbox) {
        let token = outbox.token();
        self.cuts.insert(token);
        outbox.push(Output::Truncate { token, from_op });
    }

    pub(crate) fn truncated(&mut self, token: u64) -> Flow {
        if self.cuts.remove(&token) {
            Ok(())
        } else {
            broken("a token is completed once")
        }
    }
}
