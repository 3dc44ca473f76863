//! Requests that wait for statistics.

use std::collections::{BTreeMap, BTreeSet};

use headrace_link::{RequestId, Scope};
use headrace_model::Timestamp;

use crate::calls::{Origin, Peer};

/// A request that waits for statistics.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) origin: Origin,
    /// Command code and payload, to be handled once the statistics are available.
    pub(super) request: (u32, Box<[u8]>),
    pub(super) scope: Scope,
    pub(super) until: Timestamp,
    /// Nodes that have yet to be asked.
    pub(super) unasked: BTreeSet<Peer>,
    /// Nodes that have yet to answer.
    pub(super) asked: BTreeSet<Peer>,
}

/// All requests that wait for statistics.
#[derive(Debug, Default)]
pub(super) struct Gatherings {
    pub(super) under_way: BTreeMap<RequestId, Gathering>,
}

impl Gatherings {
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }
}
