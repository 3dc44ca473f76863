//! A client of a data node, and its calls.

use std::collections::VecDeque;

use crate::checker::BatchNumber;

/// Purpose of a call.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Send {
        batch: BatchNumber,
        count: u32,
        bytes: usize,
    },
    /// Read from an offset on; `stores`: the number of the change, if the poll stores the offset.
    Poll {
        from: u64,
        count: u32,
        stores: Option<usize>,
    },
    Store {
        offset: u64,
        number: usize,
    },
    Get,
    Flush {
        is_synced: bool,
    },
}

/// Meaning of an answer for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The call has succeeded. For a poll: the last offset read, and the last one of the partition.
    Done(Option<(u64, u64)>),
    /// A read was refused because of damage.
    Damaged,
    /// The call has failed, for now.
    Refused,
}

/// Call after healing, which is repeated until it succeeds.
#[derive(Clone, Copy, Debug)]
pub(super) enum FinalCall {
    Send(usize),
    Get(usize),
    /// Read a partition from this offset on.
    Audit(usize, u64),
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) partition: usize,
    pub(super) action: Action,
    pub(super) sent_ns: u64,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    /// Number of calls that are left before healing.
    pub(super) calls_left: u32,
    /// Calls after healing.
    pub(super) finals: VecDeque<FinalCall>,
    pub(super) connections: u32,
    pub(super) is_connected: bool,
    pub(super) received: Vec<u8>,
    /// Answers to skip before that of the call.
    pub(super) greetings: u8,
    pub(super) call: Option<Call>,
    /// Time of the wake-up that counts.
    pub(super) wake_ns: u64,
}

impl Client {
    pub(super) const fn new(calls: u32) -> Self {
        Self {
            calls_left: calls,
            finals: VecDeque::new(),
            connections: 0,
            is_connected: false,
            received: Vec::new(),
            greetings: 0,
            call: None,
            wake_ns: 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.call.is_none() && self.finals.is_empty()
    }
}
