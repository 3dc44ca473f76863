//! Payload of any successful response.

use alloc::vec::Vec;

use super::{
    Capabilities, ClientDetails, ClientHeader, ClusterMetadata, ConsumerOffsetInfo, GroupDetails,
    GroupHeader, Identity, IssuedTicket, PartitionDescription, PlannedRange, Polled,
    RawAccessToken, ReadAnswer, ReaderPin, StagedMessages, Stats, StreamDetails, StreamHeader,
    TokenInfo, TopicDetails, TopicHeader, TransactionInfo, TransactionResult, UserDetails,
    UserHeader, WatchedPartition, decode_list, encode_list,
};
use crate::{CommandCode, Malformed};

/// Payload of a successful response, by content.
#[derive(Debug, Clone, PartialEq)]
pub enum Response<'a> {
    /// Empty payload: response to commands that change something, and to a query whose object does not exist.
    Empty,
    /// Response to `GetStats`.
    Stats(Stats<'a>),
    /// Response to `GetSnapshot`: the bytes of a ZIP archive.
    Snapshot(&'a [u8]),
    /// Response to `GetClusterMetadata`.
    ClusterMetadata(ClusterMetadata<'a>),
    /// Response to `GetMe` and `GetClient`.
    Client(ClientDetails<'a>),
    /// Response to `GetClients`.
    Clients(Vec<ClientHeader<'a>>),
    /// Response to `GetUser` and `CreateUser`.
    User(UserDetails<'a>),
    /// Response to `GetUsers`.
    Users(Vec<UserHeader<'a>>),
    /// Response to both logins.
    Identity(Identity),
    /// Response to `GetPersonalAccessTokens`.
    Tokens(Vec<TokenInfo<'a>>),
    /// Response to `CreatePersonalAccessToken`.
    RawToken(RawAccessToken<'a>),
    /// Response to `PollMessages` and `WaitMessages`.
    Polled(Polled<'a>),
    /// Response to `ReadMessages`.
    Read(ReadAnswer<'a>),
    /// Response to `DescribePartitions`.
    Described(Vec<PartitionDescription<'a>>),
    /// Response to `GetConsumerOffset`.
    ConsumerOffset(ConsumerOffsetInfo),
    /// Response to `GetStream`, and without topics to `CreateStream`.
    Stream(StreamDetails<'a>),
    /// Response to `GetStreams`.
    Streams(Vec<StreamHeader<'a>>),
    /// Response to `GetTopic` and `CreateTopic`.
    Topic(TopicDetails<'a>),
    /// Response to `GetTopics`.
    Topics(Vec<TopicHeader<'a>>),
    /// Response to `GetConsumerGroup` and `CreateConsumerGroup`.
    Group(GroupDetails<'a>),
    /// Response to `GetConsumerGroups`.
    Groups(Vec<GroupHeader<'a>>),
    /// Response to `Capabilities`.
    Capabilities(Capabilities),
    /// Response to `IssueTicket`.
    Ticket(IssuedTicket<'a>),
    /// Response to `PlanRange`.
    Planned(PlannedRange),
    /// Response to `StageMessages`.
    Staged(StagedMessages),
    /// Response to `CommitTransaction` and `AbortTransaction`.
    TransactionResult(TransactionResult),
    /// Response to `GetTransaction`.
    Transaction(TransactionInfo<'a>),
    /// Response to `PinReader`.
    Pinned(ReaderPin<'a>),
    /// Notifications, which follow the empty response to `WatchPartitions` any number of times.
    Watched(Vec<WatchedPartition>),
}

impl<'a> Response<'a> {
    /// Decode the payload of the successful response to `code`.
    ///
    /// An empty payload is [`Response::Empty`] if the command may answer "not found", otherwise
    /// [`Malformed::Truncated`].
    pub fn decode(code: CommandCode, payload: &'a [u8]) -> Result<Self, Malformed> {
        use CommandCode as Code;
        let may_be_missing = matches!(
            code,
            Code::GetClient
                | Code::GetUser
                | Code::GetConsumerOffset
                | Code::GetStream
                | Code::GetTopic
                | Code::GetConsumerGroup
                | Code::GetTransaction
        );
        if may_be_missing && payload.is_empty() {
            return Ok(Self::Empty);
        }
        match code {
            Code::GetStats => Stats::decode(payload).map(Self::Stats),
            Code::GetSnapshot => Ok(Self::Snapshot(payload)),
            Code::GetClusterMetadata => ClusterMetadata::decode(payload).map(Self::ClusterMetadata),
            Code::GetMe | Code::GetClient => ClientDetails::decode(payload).map(Self::Client),
            Code::GetClients => decode_list(payload).map(Self::Clients),
            Code::GetUser | Code::CreateUser => UserDetails::decode(payload).map(Self::User),
            Code::GetUsers => decode_list(payload).map(Self::Users),
            Code::LoginUser | Code::LoginWithPersonalAccessToken => {
                Identity::decode(payload).map(Self::Identity)
            }
            Code::GetPersonalAccessTokens => decode_list(payload).map(Self::Tokens),
            Code::CreatePersonalAccessToken => RawAccessToken::decode(payload).map(Self::RawToken),
            Code::PollMessages | Code::WaitMessages => Polled::decode(payload).map(Self::Polled),
            Code::ReadMessages => ReadAnswer::decode(payload).map(Self::Read),
            Code::DescribePartitions => decode_list(payload).map(Self::Described),
            Code::GetConsumerOffset => {
                ConsumerOffsetInfo::decode(payload).map(Self::ConsumerOffset)
            }
            Code::GetStream | Code::CreateStream => {
                StreamDetails::decode(payload).map(Self::Stream)
            }
            Code::GetStreams => decode_list(payload).map(Self::Streams),
            Code::GetTopic | Code::CreateTopic => TopicDetails::decode(payload).map(Self::Topic),
            Code::GetTopics => decode_list(payload).map(Self::Topics),
            Code::GetConsumerGroup | Code::CreateConsumerGroup => {
                GroupDetails::decode(payload).map(Self::Group)
            }
            Code::GetConsumerGroups => decode_list(payload).map(Self::Groups),
            Code::Capabilities => Capabilities::decode(payload).map(Self::Capabilities),
            Code::IssueTicket => IssuedTicket::decode(payload).map(Self::Ticket),
            Code::PlanRange => PlannedRange::decode(payload).map(Self::Planned),
            Code::StageMessages => StagedMessages::decode(payload).map(Self::Staged),
            Code::CommitTransaction | Code::AbortTransaction => {
                TransactionResult::decode(payload).map(Self::TransactionResult)
            }
            Code::GetTransaction => TransactionInfo::decode(payload).map(Self::Transaction),
            Code::PinReader => ReaderPin::decode(payload).map(Self::Pinned),
            Code::WatchPartitions => decode_list(payload).map(Self::Watched),
            Code::Ping
            | Code::SetTraceContext
            | Code::DisconnectClient
            | Code::ExplainRefusals
            | Code::OpenLink
            | Code::LoginWithTicket
            | Code::UnpinReader
            | Code::DeleteTransaction
            | Code::DeleteUser
            | Code::UpdateUser
            | Code::UpdatePermissions
            | Code::ChangePassword
            | Code::LogoutUser
            | Code::DeletePersonalAccessToken
            | Code::SendMessages
            | Code::FlushUnsavedBuffer
            | Code::StoreConsumerOffset
            | Code::DeleteConsumerOffset
            | Code::DeleteStream
            | Code::UpdateStream
            | Code::PurgeStream
            | Code::DeleteTopic
            | Code::UpdateTopic
            | Code::PurgeTopic
            | Code::CreatePartitions
            | Code::DeletePartitions
            | Code::DeleteSegments
            | Code::DeleteConsumerGroup
            | Code::JoinConsumerGroup
            | Code::LeaveConsumerGroup => {
                if payload.is_empty() {
                    Ok(Self::Empty)
                } else {
                    Err(Malformed::TrailingBytes)
                }
            }
        }
    }

    /// Append the payload.
    ///
    /// # Panics
    /// On a name of 0 or of more than 255 bytes, which neither the catalog nor decoding accepts.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Empty => {}
            Self::Stats(stats) => stats.encode(out),
            Self::Snapshot(archive) => out.extend_from_slice(archive),
            Self::ClusterMetadata(metadata) => metadata.encode(out),
            Self::Client(client) => client.encode(out),
            Self::Clients(clients) => encode_list(clients, out),
            Self::User(user) => user.encode(out),
            Self::Users(users) => encode_list(users, out),
            Self::Identity(identity) => identity.encode(out),
            Self::Tokens(tokens) => encode_list(tokens, out),
            Self::RawToken(token) => token.encode(out),
            Self::Polled(polled) => polled.encode(out),
            Self::Read(read) => read.encode(out),
            Self::Described(partitions) => encode_list(partitions, out),
            Self::ConsumerOffset(offset) => offset.encode(out),
            Self::Stream(stream) => stream.encode(out),
            Self::Streams(streams) => encode_list(streams, out),
            Self::Topic(topic) => topic.encode(out),
            Self::Topics(topics) => encode_list(topics, out),
            Self::Group(group) => group.encode(out),
            Self::Groups(groups) => encode_list(groups, out),
            Self::Capabilities(capabilities) => capabilities.encode(out),
            Self::Ticket(ticket) => ticket.encode(out),
            Self::Planned(plan) => plan.encode(out),
            Self::Staged(staged) => staged.encode(out),
            Self::TransactionResult(result) => result.encode(out),
            Self::Transaction(transaction) => transaction.encode(out),
            Self::Pinned(pinned) => pinned.encode(out),
            Self::Watched(partitions) => encode_list(partitions, out),
        }
    }
}
