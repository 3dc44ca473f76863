//! What a gateway says.

use headrace_model::Namespace;
use headrace_partition::{Poll, Request};

#[cfg(doc)]
use crate::ToGateway;
use crate::{Call, Membership, Place, Scope, StopWaiting, TraceContext, View, WhenReady};

/// From a gateway's shard to a node's shard, after the connection was opened with `OpenLink` and answered with
/// [`Welcome`](ToGateway::Welcome).
///
/// What is said of one partition is heard in the order in which it was said.
#[derive(Debug)]
pub enum ToNode {
    /// A request for a partition. Answered with [`Answer`](ToGateway::Answer) or [`NotHere`](ToGateway::NotHere).
    Request {
        /// Names the answer.
        call: Call,
        /// The partition.
        place: Place,
        /// Set when a member of a consumer group asks.
        member: Option<Membership>,
        /// Set when the request is traced.
        trace: Option<TraceContext>,
        /// What to do.
        request: Request,
    },
    /// A poll that may wait at its partition. Answered with [`Answer`](ToGateway::Answer) or, with [`WhenReady::Tell`], with
    /// [`Told`](ToGateway::Told); or with [`NotHere`](ToGateway::NotHere).
    Wait {
        /// Names the answer.
        call: Call,
        /// The partition.
        place: Place,
        /// Set when a member of a consumer group asks.
        member: Option<Membership>,
        /// What is wanted, with a minimum.
        poll: Poll,
        /// What to do with it.
        when_ready: WhenReady,
    },
    /// Such a poll does not wait any longer. Not answered itself.
    StopWaiting {
        /// The call of the poll.
        call: Call,
        /// The partition.
        namespace: Namespace,
        /// In what way.
        stop: StopWaiting,
    },
    /// Tell, once, when a partition is not as seen any more: [`Seen`](ToGateway::Seen), or [`NotWatched`](ToGateway::NotWatched). There is
    /// one watch of each partition on a link; another takes its place.
    Watch {
        /// The partition.
        place: Place,
        /// `None`: nothing was seen yet.
        seen: Option<View>,
    },
    /// That is not wanted any more. Not answered: what was told meanwhile is ignored.
    Unwatch {
        /// The partition.
        namespace: Namespace,
    },
    /// Figures of the partitions that the whole node holds, not only this shard. Answered with
    /// [`Statistics`](ToGateway::Statistics).
    Statistics {
        /// Names the answer.
        call: Call,
        /// Which partitions.
        scope: Scope,
    },
    /// The gateway's catalogue has this version now: what it says from here on may rely on it.
    CatalogVersion(u64),
}
