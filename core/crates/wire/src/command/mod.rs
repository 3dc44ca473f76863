//! Requests: the 47 commands of the Iggy protocol (0.8) and the extensions, decoded and encoded.
//!
//! Enumeration codes whose validation comes after permission checks in the documented order (user status, compression,
//! kinds of a snapshot) stay raw bytes here; their accessors fail with status 3 when the handler calls them. Consumer
//! and polling kinds are validated by decoding. Lengths of user names and passwords are checked by the handler as well.

mod extension;
mod group;
mod message;
mod offset;
mod partition;
mod path;
mod plan;
mod send;
mod stage;
mod stream;
mod system;
mod ticket;
mod token;
mod topic;
mod transaction;
mod user;

use alloc::vec::Vec;

pub use extension::{
    LoginWithTicket, OpenLink, SetTraceContext, WaitMessages, WatchPartitions, WatchedTopic,
};
pub use group::CreateConsumerGroup;
pub use message::{FlushUnsavedBuffer, PollMessages};
pub use offset::{ConsumerOffsetPath, StoreConsumerOffset};
pub use partition::{DeleteSegments, PartitionsCount};
pub use path::{GroupPath, StreamPath, TopicPath};
pub use plan::PlanRange;
pub use send::{METADATA_PREFIX_BYTES_MAX, SendMessages, SendMetadata, messages_range};
pub use stage::StageMessages;
pub use stream::{CreateStream, UpdateStream};
pub use system::{DisconnectClient, GetClient, GetSnapshot};
pub use ticket::IssueTicket;
pub use token::{CreateAccessToken, DeleteAccessToken, LoginWithAccessToken};
pub use topic::{CreateTopic, UpdateTopic};
pub use transaction::{AbortTransaction, CommitTransaction, PinReader, RecordName, StagedAt};
pub use user::{
    ChangePassword, CreateUser, DeleteUser, GetUser, LoginUser, UpdatePermissions, UpdateUser,
};

use crate::frame::{REQUEST_HEADER_BYTES, RequestHeader};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, Status};

/// Payload of one kind of request.
trait Payload<'a>: Sized {
    /// Read the payload; remaining bytes are padding.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status>;

    fn write(&self, out: &mut Writer<'_>);
}

/// Read the announced number of items. The count is untrusted: memory grows only with the items that are present.
fn counted<'a, T>(
    reader: &mut Reader<'a>,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = reader.u32()?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(read(reader)?);
    }
    Ok(items)
}

/// Declare the commands: code, enumeration, decoding and encoding from one table.
macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident $(($payload:ident: $type:ty))? = $code:literal,)+) => {
        /// The number of a command.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum CommandCode {
            $($(#[$doc])* $name = $code,)+
        }

        impl CommandCode {
            /// Every command, by ascending code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name in `CamelCase`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }

        impl TryFrom<u32> for CommandCode {
            type Error = Status;

            /// Fails with [`Status::INVALID_COMMAND`] for an undefined code.
            fn try_from(code: u32) -> Result<Self, Status> {
                match code {
                    $($code => Ok(Self::$name),)+
                    _ => Err(Status::INVALID_COMMAND),
                }
            }
        }

        /// A request, borrowed from the bytes of its frame.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Command<'a> {
            $($(#[$doc])* $name $(($type))?,)+
        }

        impl<'a> Command<'a> {
            /// Decode the payload of the request `code`.
            ///
            /// Bytes after a complete payload are ignored; commands without a payload ignore all of it.
            /// Fails with the documented status: 3 for an unknown code or an undecodable payload, 4 for a structural violation, for
            /// `SendMessages` also 6 (see [`SendMetadata::decode_prefix`]).
            pub fn decode(code: u32, payload: &'a [u8]) -> Result<Self, Status> {
                // Mutated only by commands with a payload.
                #[allow(unused_mut, reason = "depends on the table")]
                let mut reader = Reader::new(payload);
                match code {
                    $($code => Ok(Self::$name $((<$type as Payload>::read(&mut reader)?))?),)+
                    _ => Err(Status::INVALID_COMMAND),
                }
            }

            /// The number of this command.
            pub fn code(&self) -> CommandCode {
                match self {
                    $(Self::$name { .. } => CommandCode::$name,)+
                }
            }

            fn write(&self, out: &mut Writer<'_>) {
                match self {
                    $(Self::$name $(($payload))? => { $($payload.write(out);)? })+
                }
            }
        }
    };
}

commands! {
    /// Heartbeat; the only request, besides the logins, that needs no login.
    Ping = 1,
    /// Statistics of the server.
    GetStats = 10,
    /// A diagnostics archive.
    GetSnapshot(request: GetSnapshot<'a>) = 11,
    /// The nodes of the cluster.
    GetClusterMetadata = 12,
    /// Details of the requesting connection.
    GetMe = 20,
    /// One connection.
    GetClient(request: GetClient) = 21,
    /// All connections.
    GetClients = 22,
    /// One user.
    GetUser(request: GetUser<'a>) = 31,
    /// All users.
    GetUsers = 32,
    /// Create a user.
    CreateUser(request: CreateUser<'a>) = 33,
    /// Delete a user.
    DeleteUser(request: DeleteUser<'a>) = 34,
    /// Rename a user or change its status.
    UpdateUser(request: UpdateUser<'a>) = 35,
    /// Replace or remove the permissions of a user.
    UpdatePermissions(request: UpdatePermissions<'a>) = 36,
    /// Change a password.
    ChangePassword(request: ChangePassword<'a>) = 37,
    /// Log in with a password.
    LoginUser(request: LoginUser<'a>) = 38,
    /// Log out; the connection stays.
    LogoutUser = 39,
    /// The access tokens of the caller.
    GetPersonalAccessTokens = 41,
    /// Create an access token for the caller.
    CreatePersonalAccessToken(request: CreateAccessToken<'a>) = 42,
    /// Delete an access token of the caller.
    DeletePersonalAccessToken(request: DeleteAccessToken<'a>) = 43,
    /// Log in with an access token.
    LoginWithPersonalAccessToken(request: LoginWithAccessToken<'a>) = 44,
    /// Read messages.
    PollMessages(request: PollMessages<'a>) = 100,
    /// Append messages.
    SendMessages(request: SendMessages<'a>) = 101,
    /// Write the buffered messages of a partition.
    FlushUnsavedBuffer(request: FlushUnsavedBuffer<'a>) = 102,
    /// The offset stored for a consumer.
    GetConsumerOffset(request: ConsumerOffsetPath<'a>) = 120,
    /// Store an offset for a consumer.
    StoreConsumerOffset(request: StoreConsumerOffset<'a>) = 121,
    /// Delete the offset stored for a consumer.
    DeleteConsumerOffset(request: ConsumerOffsetPath<'a>) = 122,
    /// One stream with its topics.
    GetStream(path: StreamPath<'a>) = 200,
    /// All streams.
    GetStreams = 201,
    /// Create a stream.
    CreateStream(request: CreateStream<'a>) = 202,
    /// Delete a stream.
    DeleteStream(path: StreamPath<'a>) = 203,
    /// Rename a stream.
    UpdateStream(request: UpdateStream<'a>) = 204,
    /// Drop the messages of every topic of a stream.
    PurgeStream(path: StreamPath<'a>) = 205,
    /// One topic with its partitions.
    GetTopic(path: TopicPath<'a>) = 300,
    /// All topics of a stream.
    GetTopics(path: StreamPath<'a>) = 301,
    /// Create a topic.
    CreateTopic(request: CreateTopic<'a>) = 302,
    /// Delete a topic.
    DeleteTopic(path: TopicPath<'a>) = 303,
    /// Replace the settings of a topic.
    UpdateTopic(request: UpdateTopic<'a>) = 304,
    /// Drop the messages of a topic.
    PurgeTopic(path: TopicPath<'a>) = 305,
    /// Append partitions to a topic.
    CreatePartitions(request: PartitionsCount<'a>) = 402,
    /// Remove the highest-numbered partitions of a topic.
    DeletePartitions(request: PartitionsCount<'a>) = 403,
    /// Remove the oldest sealed segments of a partition.
    DeleteSegments(request: DeleteSegments<'a>) = 503,
    /// One consumer group with its members.
    GetConsumerGroup(path: GroupPath<'a>) = 600,
    /// All consumer groups of a topic.
    GetConsumerGroups(path: TopicPath<'a>) = 601,
    /// Create a consumer group.
    CreateConsumerGroup(request: CreateConsumerGroup<'a>) = 602,
    /// Delete a consumer group.
    DeleteConsumerGroup(path: GroupPath<'a>) = 603,
    /// Make this connection a member of a group.
    JoinConsumerGroup(path: GroupPath<'a>) = 604,
    /// End this connection's membership of a group.
    LeaveConsumerGroup(path: GroupPath<'a>) = 605,
    /// Extensions that the server supports.
    Capabilities = 10_000,
    /// Read messages, and wait for them if necessary.
    WaitMessages(request: WaitMessages<'a>) = 10_001,
    /// Start or stop notifications about changes of partitions.
    WatchPartitions(request: WatchPartitions<'a>) = 10_002,
    /// Set the trace context of the next request.
    SetTraceContext(request: SetTraceContext) = 10_003,
    /// Close the connection of a client.
    DisconnectClient(request: DisconnectClient) = 10_004,
    /// Read messages, wait for them, and report the range that was removed before it could be read.
    ReadMessages(request: WaitMessages<'a>) = 10_005,
    /// State and location of the partitions of a topic.
    DescribePartitions(path: TopicPath<'a>) = 10_006,
    /// Include explanations in error responses from now on.
    ExplainRefusals = 10_007,
    /// Turn the connection into a link between a gateway and a partition node.
    OpenLink(request: OpenLink<'a>) = 10_010,
    /// Log in at a partition node.
    LoginWithTicket(request: LoginWithTicket<'a>) = 10_011,
    /// Issue a ticket for a topic.
    IssueTicket(request: IssueTicket<'a>) = 10_012,
    /// Store messages that stay invisible until they are committed.
    StageMessages(request: StageMessages<'a>) = 10_020,
    /// Commit a transaction: make staged messages part of their partitions.
    CommitTransaction(request: CommitTransaction<'a>) = 10_021,
    /// Abort a transaction: discard staged messages.
    AbortTransaction(request: AbortTransaction<'a>) = 10_022,
    /// Last commit under a transaction name.
    GetTransaction(request: RecordName<'a>) = 10_023,
    /// Pin a value for the readers with one name.
    PinReader(request: PinReader<'a>) = 10_024,
    /// Delete the value pinned for readers.
    UnpinReader(request: RecordName<'a>) = 10_025,
    /// Split a range of messages.
    PlanRange(request: PlanRange<'a>) = 10_026,
    /// Delete the last commit under a transaction name.
    DeleteTransaction(request: RecordName<'a>) = 10_027,
}

impl CommandCode {
    /// The number on the wire.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Return whether this is an extension command. Clients of the plain Iggy protocol never send it and never see its
    /// responses.
    pub const fn is_extension(self) -> bool {
        self.code() >= 10_000
    }
}

impl Command<'_> {
    /// Append the payload, without the frame header.
    ///
    /// # Panics
    /// On a value that has no encoding: a name of 0 or of more than 255 bytes, a password or messages key of more than
    /// 255 bytes. For untrusted values use [`Self::try_encode`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.try_encode(out)
            .expect("names, passwords and keys were checked by the caller");
    }

    /// Append the payload, without the frame header.
    ///
    /// Fails with [`Status::INVALID_FORMAT`] on a value that has no encoding, and leaves `out` unchanged in that case.
    pub fn try_encode(&self, out: &mut Vec<u8>) -> Result<(), Status> {
        let start = out.len();
        let mut writer = Writer::new(out);
        self.write(&mut writer);
        if writer.is_representable() {
            Ok(())
        } else {
            out.truncate(start);
            Err(Status::INVALID_FORMAT)
        }
    }

    /// Append the complete frame: header and payload.
    ///
    /// Fails with [`Status::INVALID_FORMAT`] on a value that has no encoding or a payload whose length does not fit its
    /// field, and leaves `out` unchanged in that case.
    pub fn try_encode_frame(&self, out: &mut Vec<u8>) -> Result<(), Status> {
        let start = out.len();
        out.extend_from_slice(&[0; REQUEST_HEADER_BYTES]);
        let payload_start = out.len();
        let result = self.try_encode(out).and_then(|()| {
            RequestHeader::new(self.code().code(), out.len() - payload_start)
                .ok_or(Status::INVALID_FORMAT)
        });
        match result {
            Ok(header) => {
                out[start..payload_start].copy_from_slice(&header.encode());
                Ok(())
            }
            Err(status) => {
                out.truncate(start);
                Err(status)
            }
        }
    }
}

#[cfg(test)]
mod tests;
