//! Messages from a gateway.

use headrace_model::Namespace;
use headrace_partition::{Poll, Request};

#[cfg(doc)]
use crate::ToGateway;
use crate::{CallHeader, EndWait, PartitionRef, RequestId, Scope, WatchedState, WhenReady};

/// Message from a shard of a gateway to a shard of a node, sent after the connection was opened with `OpenLink` and
/// answered with [`Welcome`](ToGateway::Welcome).
///
/// Messages about one partition are processed in the order in which they were sent.
#[derive(Debug)]
pub enum ToNode {
    /// A request for a partition. Answered with [`Answer`](ToGateway::Answer) or [`WrongNode`](ToGateway::WrongNode).
    Request {
        /// Head of the request.
        header: CallHeader,
        /// Operation to execute.
        request: Request,
    },
    /// Poll that may wait at its partition. Answered with [`ToGateway::Answer`] or, with [`WhenReady::Notify`], with
    /// [`ToGateway::PollReady`]; or with [`ToGateway::WrongNode`].
    Wait {
        /// Head of the request.
        header: CallHeader,
        /// Poll, with a minimum.
        poll: Poll,
        /// Reaction when enough messages are available.
        when_ready: WhenReady,
    },
    /// End the wait of a poll. Has no response of its own.
    EndWait {
        /// Id of the poll.
        call: RequestId,
        /// The partition.
        namespace: Namespace,
        /// Reaction of the poll.
        reaction: EndWait,
    },
    /// Report once when the state of a partition differs from `last_state`: [`StateChanged`](ToGateway::StateChanged), or
    /// [`NotWatched`](ToGateway::NotWatched). A link has at most one watch per partition; a new one replaces the old
    /// one.
    Watch {
        /// The partition.
        place: PartitionRef,
        /// State last seen; `None` if there is none yet.
        last_state: Option<WatchedState>,
        /// Report the openings of its log as well. Gateways of earlier releases do not know them.
        wants_openings: bool,
    },
    /// End the watch of a partition. Not answered; the gateway ignores reports that are already under way.
    Unwatch {
        /// The partition.
        namespace: Namespace,
    },
    /// Request statistics of the partitions that the whole node serves, not only this shard. Answered with
    /// [`Statistics`](ToGateway::Statistics).
    Statistics {
        /// Request id.
        call: RequestId,
        /// Partitions to report.
        scope: Scope,
    },
    /// Current version of the gateway's catalog. All later messages may rely on it.
    CatalogVersion(u64),
}
