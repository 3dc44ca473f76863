//! What goes into a shard and what comes out of it.

use std::{fmt, num::NonZeroU32, sync::Arc};

use headrace_buffer::{Buffer, Slice};
use headrace_link::{Membership, Refusal, StopWaiting, View, WhenReady};
use headrace_log::storage::{StorageCompletion, StorageRequest};
use headrace_model::{Namespace, ShardId, Timestamp};
use headrace_partition::{Poll, Request, Response};
use headrace_proto::control::v1 as control;

use crate::arrival::Arrival;
use crate::connection::{Connection, Sequence};

/// A connection of this shard: chosen by the host, never used again after the connection closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionKey {
    /// Place in the host's table.
    pub index: u32,
    /// Tells a place's users apart.
    pub generation: u32,
}

/// A connection to another node that a shard has asked for: chosen by the shard, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkNumber(pub u32);

/// One request of one connection of one shard: where an answer belongs, and in whose name it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The shard that holds the connection.
    pub shard: ShardId,
    /// The connection.
    pub connection: ConnectionKey,
    /// The request.
    pub sequence: Sequence,
    /// Set when the connection asks as a member of a consumer group.
    pub member: Option<Membership>,
    /// Set when the request is traced: its number among those of the shard.
    pub trace: Option<NonZeroU32>,
}

/// Something happened.
#[derive(Debug)]
pub enum Input {
    /// A connection was accepted (and perhaps handed over by the shard that accepts).
    Accepted {
        /// Its key from now on.
        connection: ConnectionKey,
        /// Where it came from.
        arrival: Arrival,
    },
    /// A connection moved here from another shard, with its session and what it had received.
    Adopted {
        /// Its key from now on.
        connection: ConnectionKey,
        /// From [`Effect::Move`].
        luggage: Luggage,
    },
    /// The end of [`Effect::Connect`].
    Connected {
        /// Which.
        link: LinkNumber,
        /// Its key from now on, or why there is none.
        result: Result<ConnectionKey, String>,
    },
    /// A receive ended. The buffer comes back whatever happened.
    Received {
        /// The connection.
        connection: ConnectionKey,
        /// The buffer of the effect.
        buffer: Buffer,
        /// Bytes received; 0 or `None`: the peer closed or the connection broke.
        count: Option<usize>,
    },
    /// A send ended.
    Sent {
        /// The connection.
        connection: ConnectionKey,
        /// Whether everything was sent.
        sent: bool,
    },
    /// A storage operation of a partition ended.
    Storage {
        /// The partition.
        namespace: Namespace,
        /// Which operation, and how.
        completion: StorageCompletion,
    },
    /// The folder of a deleted partition is gone (or could not be removed; the next start tries again).
    FolderRemoved {
        /// The partition.
        namespace: Namespace,
    },
    /// Another shard says something.
    Mail(Mail),
    /// The control plane answers.
    ControlReply {
        /// Where the answer belongs.
        origin: Origin,
        /// The answer.
        reply: control::Reply,
    },
    /// A newer catalogue was published.
    CatalogChanged,
    /// The newest catalogue has all changes up to this time of the metadata service: a stage that had expired by then, and
    /// that it does not name, is never committed.
    StageHorizon(Timestamp),
    /// Mail to other shards waits (`true`) or flows again (`false`): while it waits nothing new is started.
    Congested(bool),
    /// Stop, first step: take no new requests, answer what is in flight, close connections.
    Shutdown,
    /// Stop, second step, when no shard has connections any more: flush and close partitions. Until then other
    /// shards' requests in flight are still answered.
    ClosePartitions,
}

/// Something the host must do.
#[derive(Debug)]
pub enum Effect {
    /// Open a connection to another node; answered by [`Input::Connected`].
    Connect {
        /// Names it in the answer.
        link: LinkNumber,
        /// `host:port`; the host may be a name.
        address: Arc<str>,
    },
    /// Receive into `buffer[start..]` until at least `minimum` more bytes are there; answered by [`Input::Received`].
    Receive {
        /// The connection.
        connection: ConnectionKey,
        /// Filled up to its length.
        buffer: Buffer,
        /// Where to begin.
        start: usize,
        /// Bytes to wait for.
        minimum: usize,
        /// The peer may hold back its next segment: acknowledge at once what arrived.
        quickack: bool,
    },
    /// Send everything; answered by [`Input::Sent`].
    Send {
        /// The connection.
        connection: ConnectionKey,
        /// In order.
        slices: Vec<Slice>,
    },
    /// Say that nothing more will be sent. The connection stays for what the peer is still sending.
    Finish {
        /// The connection.
        connection: ConnectionKey,
    },
    /// Cancel what is in flight and close the socket. The key is not used again.
    Close {
        /// The connection.
        connection: ConnectionKey,
    },
    /// Hand the socket to another shard, where [`Input::Adopted`] follows. Nothing is in flight on it; the key is
    /// not used again.
    Move {
        /// The connection.
        connection: ConnectionKey,
        /// Where its partitions are.
        to: ShardId,
        /// What goes with it.
        luggage: Luggage,
    },
    /// Execute a storage operation; answered by [`Input::Storage`].
    Storage {
        /// The partition.
        namespace: Namespace,
        /// What to do.
        request: StorageRequest,
    },
    /// A closed partition's files will not be used until it is opened again.
    ReleaseFiles {
        /// The partition.
        namespace: Namespace,
    },
    /// Remove the folder of a deleted partition; answered by [`Input::FolderRemoved`].
    RemoveFolder {
        /// The partition.
        namespace: Namespace,
    },
    /// Deliver to another shard, in order.
    Mail {
        /// The shard.
        to: ShardId,
        /// The message.
        mail: Mail,
    },
    /// Tell people that something is wrong with what is stored.
    Report {
        /// What and where.
        message: String,
    },
    /// Hand to the control plane; answered by [`Input::ControlReply`].
    Control {
        /// Where the answer belongs.
        origin: Origin,
        /// The request.
        request: control::Request,
    },
    /// Tell the control plane something that nobody waits for an answer to.
    Notice {
        /// What happened.
        request: control::Request,
    },
}

/// A connection between two shards: its session and the bytes that were received and not handled.
pub struct Luggage(pub(crate) Box<Connection>);

impl fmt::Debug for Luggage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Luggage")
            .field(&self.0.session.client)
            .finish()
    }
}

/// What shards say to each other.
#[derive(Debug)]
pub enum Mail {
    /// A request for a partition that the receiver owns.
    Request {
        /// Where the answer belongs.
        origin: Origin,
        /// The partition.
        namespace: Namespace,
        /// What to do.
        request: Request,
    },
    /// The answer.
    Answer {
        /// The request that it answers.
        origin: Origin,
        /// The partition.
        namespace: Namespace,
        /// The outcome.
        result: Result<Response, Refusal>,
    },
    /// A poll that may wait at a partition that the receiver owns.
    Wait {
        /// Where the answer belongs.
        origin: Origin,
        /// The partition.
        namespace: Namespace,
        /// What is wanted, with a minimum.
        poll: Poll,
        /// What to do with it.
        when_ready: WhenReady,
    },
    /// Such a poll does not wait any longer.
    StopWaiting {
        /// The request.
        origin: Origin,
        /// The partition.
        namespace: Namespace,
        /// In what way.
        stop: StopWaiting,
    },
    /// A poll that is wanted will find enough now.
    Told {
        /// The request.
        origin: Origin,
        /// The partition.
        namespace: Namespace,
    },
    /// Tell, once, when a partition that the receiver owns is not as seen any more.
    Watch {
        /// The partition.
        namespace: Namespace,
        /// Who is to be told.
        shard: ShardId,
        /// `None`: nothing was seen yet.
        seen: Option<View>,
    },
    /// That is not wanted any more.
    Unwatch {
        /// The partition.
        namespace: Namespace,
        /// Who was to be told.
        shard: ShardId,
    },
    /// How a partition is now that was watched.
    Seen {
        /// The partition.
        namespace: Namespace,
        /// How it is.
        view: View,
    },
    /// Memory is short: give back a part of what caches hold here.
    Reclaim {
        /// Bytes that are wanted of all shards.
        bytes: u64,
        /// Bytes that their caches hold.
        held_bytes: u64,
    },
    /// There is memory for a receiver that waits here.
    Room,
}
