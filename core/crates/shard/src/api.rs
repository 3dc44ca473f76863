//! Inputs and effects of a shard.

use std::{fmt, sync::Arc};

use headrace_buffer::{Buffer, Slice};
use headrace_log::storage::{StorageCompletion, StorageRequest};
use headrace_model::{Level, Namespace, ShardId, Timestamp};
use headrace_proto::control::v1 as control;

use crate::{
    calls::{ConnectionKey, LinkNumber, Mail, Origin},
    sessions::{arrival::Arrival, connection::Connection},
};

/// An event that the host feeds into the shard.
#[derive(Debug)]
pub enum Input {
    /// A connection was accepted, possibly by another shard that handed it over.
    Accepted {
        /// Key of the new connection.
        connection: ConnectionKey,
        /// Address, transport and framing of the connection.
        arrival: Arrival,
    },
    /// A connection moved here from another shard, with its session and its unprocessed bytes.
    Adopted {
        /// Key of the connection on this shard.
        connection: ConnectionKey,
        /// Connection state from [`Effect::Move`].
        connection_state: MovedConnection,
    },
    /// Completion of [`Effect::Connect`].
    Connected {
        /// Number of the requested connection.
        link: LinkNumber,
        /// Key of the connection, or the reason for the failure.
        result: Result<ConnectionKey, String>,
    },
    /// A receive completed. The buffer is returned in every case.
    Received {
        /// Connection of the receive.
        connection: ConnectionKey,
        /// Buffer from the effect.
        buffer: Buffer,
        /// Number of bytes received; 0 or `None` if the peer closed or the connection broke.
        count: Option<usize>,
    },
    /// A send completed.
    Sent {
        /// Connection of the send.
        connection: ConnectionKey,
        /// True if everything was sent.
        sent: bool,
    },
    /// A storage operation of a partition completed.
    Storage {
        /// Partition of the operation.
        namespace: Namespace,
        /// Completed operation and its result.
        completion: StorageCompletion,
    },
    /// The directory of a deleted partition was removed. After a failure the next startup tries again.
    DirectoryRemoved {
        /// Deleted partition.
        namespace: Namespace,
    },
    /// Mail from another shard.
    Mail(Mail),
    /// Reply of the control plane.
    ControlReply {
        /// Request that the reply belongs to.
        origin: Origin,
        /// Content of the reply.
        reply: control::Reply,
    },
    /// A newer catalog was published.
    CatalogChanged,
    /// The newest catalog includes all changes up to this time of the metadata service. A staged batch that had expired
    /// before this time and that the catalog does not name is never committed.
    StageHorizon(Timestamp),
    /// Mail to other shards is blocked (`true`) or flows again (`false`). No new requests start while mail is blocked.
    Congested(bool),
    /// First step of shutdown: accept no new requests, answer those in flight, close connections.
    Shutdown,
    /// Second step of shutdown, once no shard has connections, or the time for answers is over: close the connections
    /// that are left, flush and close partitions. Requests of other shards are answered until this step.
    ClosePartitions,
}

/// An action that the shard requests from the host.
#[derive(Debug)]
pub enum Effect {
    /// Open a connection to another node; answered by [`Input::Connected`].
    Connect {
        /// Number that identifies the connection in the answer.
        link: LinkNumber,
        /// Address as `host:port`; the host may be a name.
        address: Arc<str>,
    },
    /// Receive into `buffer[start..]` until at least `minimum` more bytes are there; answered by [`Input::Received`].
    Receive {
        /// Connection to receive from.
        connection: ConnectionKey,
        /// Buffer whose length is the end of the range to fill.
        buffer: Buffer,
        /// Position of the first byte to fill.
        start: usize,
        /// Minimum number of bytes to wait for.
        minimum: usize,
        /// True if the peer may delay its next segment: acknowledge received data at once.
        quickack: bool,
    },
    /// Send everything; answered by [`Input::Sent`].
    Send {
        /// Connection to send on.
        connection: ConnectionKey,
        /// Slices in the order in which they are sent.
        slices: Vec<Slice>,
    },
    /// Shut down the sending side. The connection remains open for data that the peer still sends.
    Finish {
        /// Connection to shut down for sending.
        connection: ConnectionKey,
    },
    /// Cancel what is in flight and close the socket. The key is not used again.
    Close {
        /// Connection to close.
        connection: ConnectionKey,
    },
    /// Hand the socket over to another shard, which receives [`Input::Adopted`]. The socket has nothing in flight and
    /// the key is not used again.
    Move {
        /// Connection to move.
        connection: ConnectionKey,
        /// Shard that owns the partitions of the connection.
        to: ShardId,
        /// Connection state to hand over.
        connection_state: MovedConnection,
    },
    /// Execute a storage operation; answered by [`Input::Storage`].
    Storage {
        /// Partition of the operation.
        namespace: Namespace,
        /// Operation to execute.
        request: StorageRequest,
    },
    /// Release the files of a closed partition. They are not used until the partition is opened again.
    ReleaseFiles {
        /// Closed partition.
        namespace: Namespace,
    },
    /// Remove the directory of a deleted partition, unless it is another's; answered by [`Input::DirectoryRemoved`].
    RemoveDirectory {
        /// Deleted partition.
        namespace: Namespace,
        /// Incarnation that was deleted.
        incarnation: u64,
    },
    /// Deliver mail to another shard, in order.
    Mail {
        /// Receiving shard.
        to: ShardId,
        /// Message to deliver.
        mail: Mail,
    },
    /// Report something to the operator, through the log.
    Report {
        /// Severity: an error says that an operator has to act.
        level: Level,
        /// Description, with the partition, node or address that it is about.
        message: String,
    },
    /// Send a request to the control plane; answered by [`Input::ControlReply`].
    Control {
        /// Request that the reply belongs to.
        origin: Origin,
        /// Request to send.
        request: control::Request,
    },
    /// Send a one-way notification to the control plane; it has no reply.
    Notice {
        /// Content of the notification.
        request: control::Request,
    },
}

/// State of a connection that moves between two shards: its session, and the bytes received but not yet processed.
pub struct MovedConnection(pub(crate) Box<Connection>);

impl fmt::Debug for MovedConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("MovedConnection")
            .field(&self.0.session.client)
            .finish()
    }
}
