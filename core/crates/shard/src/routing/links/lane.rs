//! Calls of one partition, in order.

use std::collections::VecDeque;

use headrace_link::RequestId;
use headrace_model::Timestamp;

use crate::{calls::Peer, moment::Moment};

/// Calls of one partition.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Parked calls in order; some may have been dropped.
    pub(super) queue: VecDeque<RequestId>,
    /// Node and shard to which the calls in flight were sent.
    pub(super) at: Option<Peer>,
    pub(super) in_flight: u32,
    pub(super) retry: Option<Retry>,
    /// Number of retries in a row.
    pub(super) retries: u32,
}

/// A node's reply that the partition is not there.
#[derive(Debug)]
pub(super) struct Retry {
    pub(super) from: Peer,
    /// Catalog version of that reply.
    pub(super) version: u64,
    /// Time of the next attempt, if the catalog still names that node.
    pub(super) again_at: Timestamp,
}

impl Lane {
    pub(super) fn is_free(&self) -> bool {
        self.queue.is_empty() && self.retry.is_none()
    }

    /// Return whether calls may be sent to `peer`: everything earlier is answered or was sent there as well.
    pub(super) fn leads_to(&self, peer: Peer) -> bool {
        self.in_flight == 0 || self.at == Some(peer)
    }

    /// Return whether no retry blocks the lane. With nothing in flight all refusals have been received: the node takes
    /// the repetition of the first refused call as a sign of that.
    pub(super) fn is_clear(&mut self, moment: Moment<'_>, way: Option<Peer>) -> bool {
        let Some(retry) = &self.retry else {
            return true;
        };
        let is_known = moment.catalog.version() >= retry.version;
        let is_elsewhere = way != Some(retry.from);
        let is_clear =
            self.in_flight == 0 && is_known && (is_elsewhere || retry.again_at <= moment.now);
        if is_clear {
            self.retry = None;
        }
        is_clear
    }

    /// Queue a call in front of later ones.
    pub(super) fn park(&mut self, call: RequestId) {
        let index = self.queue.partition_point(|other| *other < call);
        self.queue.insert(index, call);
    }
}
