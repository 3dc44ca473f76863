//! Events of links, which the shard takes.

use headrace_link::WatchedState;
use headrace_model::Namespace;

use crate::calls::{ConnectionKey, Origin, PartitionAnswer};

/// Result of a call or another event of a link.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// An answer to a call.
    Answer {
        answer: PartitionAnswer,
        /// True if the call waited so long that its client may have been unable to send heartbeats.
        has_waited: bool,
    },
    /// A waiting poll would now find enough messages.
    MessagesAvailable {
        origin: Origin,
        namespace: Namespace,
    },
    /// A watched partition has changed.
    Seen {
        namespace: Namespace,
        view: WatchedState,
    },
    /// The outcome of a request of this connection is unknown. The connection is closed, as if the server had crashed.
    OutcomeUnknown { connection: ConnectionKey },
    /// The budget again has room for what this connection wants to send.
    Room { connection: ConnectionKey },
    /// The statistics that this request waited for are in the catalog, as far as they are available.
    StatisticsGathered {
        origin: Origin,
        request: (u32, Box<[u8]>),
    },
}
