//! A blocking client with typed commands.

use std::io;
use std::net::TcpStream;

use headrace_model::{Offset, PartitionId, StreamId, TopicId, UserId};
use headrace_wire::command::{
    ConsumerOffsetPath, CreateStream, CreateTopic, LoginUser, LoginWithAccessToken,
    LoginWithTicket, PollMessages, StoreConsumerOffset, StreamPath, TopicPath,
};
use headrace_wire::message::Messages;
use headrace_wire::response::{self, ConsumerOffsetInfo, Identity, StreamDetails, TopicDetails};
use headrace_wire::{
    Command, CommandCode, CompressionAlgorithm, Identifier, Malformed, SendMessages,
};

use crate::batch::encode_front;
use crate::transport::Link;
use crate::{ClientError, ConnectOptions, PreparedBatch, ResponseBuffer};

/// Version of the client that is sent to the server for information.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A connection to a server. Every call waits for its answer; [`crate::Pipeline`] does not.
#[derive(Debug)]
pub struct Client {
    pub(crate) link: Link,
    buffer: ResponseBuffer,
    front: Vec<u8>,
}

/// A topic to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewTopic<'a> {
    /// Name, unique within the stream, 1 to 255 bytes.
    pub name: &'a str,
    /// Number of partitions, 0 to 1000.
    pub partitions_count: u32,
    /// Compression algorithm; the server only stores and returns it.
    pub compression: CompressionAlgorithm,
    /// Time in microseconds after which messages expire; 0: the server's default, `u64::MAX`: never.
    pub message_expiry_micros: u64,
    /// Maximum size in bytes; 0: the server's default, `u64::MAX`: unlimited.
    pub max_size_bytes: u64,
    /// Number of replicas; 0: the server's default.
    pub replication_factor: u8,
}

impl<'a> NewTopic<'a> {
    /// Describe a topic with the server's defaults for all other properties.
    pub const fn new(name: &'a str, partitions_count: u32) -> Self {
        Self {
            name,
            partitions_count,
            compression: CompressionAlgorithm::None,
            message_expiry_micros: 0,
            max_size_bytes: 0,
            replication_factor: 0,
        }
    }
}

/// An existing topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicInfo {
    /// Number of the topic within its stream.
    pub id: TopicId,
    /// Number of partitions; their ids start at 0.
    pub partitions_count: u32,
}

/// A stored offset and the current end of its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredOffset {
    /// The partition.
    pub partition_id: PartitionId,
    /// Offset of the last message in the partition.
    pub current: Offset,
    /// Offset of the last message that was processed.
    pub stored: Offset,
}

/// Result of a poll, borrowed from the buffer that it was read into.
#[derive(Debug, Clone, Copy)]
pub struct Polled<'b> {
    /// Polled partition.
    pub partition_id: PartitionId,
    /// Offset of the last message in the partition; 0 also when it is empty.
    pub current_offset: Offset,
    /// Number of messages returned.
    pub messages_count: u32,
    /// The messages, back to back.
    pub message_bytes: &'b [u8],
    /// Messages that were removed before they could be read, if the answer reports any.
    pub gap: Option<Gap>,
}

/// Messages that were removed before they could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Offset at which the poll was to start.
    pub from: Offset,
    /// First existing offset after it.
    pub to: Offset,
}

impl<'b> Polled<'b> {
    fn new(polled: &response::Polled<'b>, gap: Option<Gap>) -> Self {
        Self {
            partition_id: PartitionId(polled.header.partition_id),
            current_offset: Offset(polled.header.current_offset),
            messages_count: polled.header.messages_count,
            message_bytes: polled.message_bytes,
            gap,
        }
    }

    /// Iterate over the messages.
    pub fn messages(&self) -> Messages<'b> {
        Messages::new(self.message_bytes)
    }
}

impl Client {
    /// Connect to `host:port`, or through TLS to `tls://host:port?ca=FILE` (PEM file of trusted authorities), with
    /// `name=NAME` if the certificate has a name other than the host, or with `verify=no` in place of an authority.
    /// Most requests need a login first.
    pub fn connect(address: &str, options: &ConnectOptions) -> Result<Self, ClientError> {
        Ok(Self {
            link: Link::connect(address, options)?,
            buffer: ResponseBuffer::default(),
            front: Vec::new(),
        })
    }

    /// Duplicate the socket's handle, for ending a wait from another thread with [`TcpStream::shutdown`].
    pub fn try_clone_socket(&self) -> io::Result<TcpStream> {
        self.link.try_clone_socket()
    }

    /// Send a heartbeat. Needs no login.
    pub fn ping(&mut self) -> Result<(), ClientError> {
        self.call(&Command::Ping)
    }

    /// Log in with a password.
    pub fn login(&mut self, username: &str, password: &str) -> Result<UserId, ClientError> {
        self.request_identity(&Command::LoginUser(LoginUser {
            username,
            password,
            version: VERSION,
            context: "",
        }))
    }

    /// Log in with an access token.
    pub fn login_with_access_token(&mut self, token: &str) -> Result<UserId, ClientError> {
        self.request_identity(&Command::LoginWithPersonalAccessToken(
            LoginWithAccessToken { token },
        ))
    }

    /// Log in at a partition node with a ticket; permits only the access that the ticket grants.
    pub fn login_with_ticket(&mut self, ticket: &str) -> Result<(), ClientError> {
        self.call(&Command::LoginWithTicket(LoginWithTicket { ticket }))
    }

    /// Create a stream; its name must be free on the server.
    pub fn create_stream(&mut self, name: &str) -> Result<StreamId, ClientError> {
        self.request_stream(&Command::CreateStream(CreateStream { name }))
    }

    /// Look up the number of a stream; [`ClientError::NotFound`] if it does not exist.
    pub fn get_stream(&mut self, stream: Identifier<'_>) -> Result<StreamId, ClientError> {
        self.request_stream(&Command::GetStream(StreamPath { stream }))
    }

    /// Delete a stream with everything in it.
    pub fn delete_stream(&mut self, stream: Identifier<'_>) -> Result<(), ClientError> {
        self.call(&Command::DeleteStream(StreamPath { stream }))
    }

    /// Create a topic; its name must be free in the stream.
    pub fn create_topic(
        &mut self,
        stream: Identifier<'_>,
        topic: &NewTopic<'_>,
    ) -> Result<TopicInfo, ClientError> {
        self.request_topic(&Command::CreateTopic(CreateTopic {
            stream,
            partitions_count: topic.partitions_count,
            compression_code: topic.compression.code(),
            message_expiry: topic.message_expiry_micros,
            max_topic_size: topic.max_size_bytes,
            replication_factor: topic.replication_factor,
            name: topic.name,
        }))
    }

    /// Look up number and partitions of a topic; [`ClientError::NotFound`] if it does not exist.
    pub fn get_topic(
        &mut self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
    ) -> Result<TopicInfo, ClientError> {
        self.request_topic(&Command::GetTopic(TopicPath { stream, topic }))
    }

    /// Delete a topic with everything in it.
    pub fn delete_topic(
        &mut self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
    ) -> Result<(), ClientError> {
        self.call(&Command::DeleteTopic(TopicPath { stream, topic }))
    }

    /// Append a batch and wait until the server has acknowledged it.
    pub fn send(&mut self, request: &SendMessages<'_>) -> Result<(), ClientError> {
        self.front.clear();
        encode_front(request, &mut self.front)?;
        let parts = [&self.front, request.indexes, request.messages];
        self.link.send_parts(CommandCode::SendMessages, parts)?;
        self.read_empty_answer(CommandCode::SendMessages)
    }

    /// Append a prepared batch and wait until the server has acknowledged it.
    pub fn send_prepared(&mut self, batch: &PreparedBatch) -> Result<(), ClientError> {
        self.write_batch(batch)?;
        self.read_empty_answer(CommandCode::SendMessages)
    }

    /// Read messages into `buffer`, which is reused from poll to poll.
    pub fn poll<'b>(
        &mut self,
        request: &PollMessages<'_>,
        buffer: &'b mut ResponseBuffer,
    ) -> Result<Polled<'b>, ClientError> {
        self.link.send_command(&Command::PollMessages(*request))?;
        let command = CommandCode::PollMessages;
        self.link.receive(command, buffer)?;
        let polled = response::Polled::decode(buffer.payload())
            .map_err(|source| ClientError::Malformed { command, source })?;
        Ok(Polled::new(&polled, None))
    }

    pub(crate) fn receive_read<'b>(
        &mut self,
        buffer: &'b mut ResponseBuffer,
    ) -> Result<Polled<'b>, ClientError> {
        let command = CommandCode::ReadMessages;
        self.link.receive(command, buffer)?;
        let read = response::ReadAnswer::decode(buffer.payload())
            .map_err(|source| ClientError::Malformed { command, source })?;
        let gap = (read.gap != response::ReadGap::default()).then_some(Gap {
            from: Offset(read.gap.from),
            to: Offset(read.gap.to),
        });
        Ok(Polled::new(&read.polled, gap))
    }

    /// Store the offset of the last message that a consumer has processed.
    pub fn store_offset(
        &mut self,
        path: ConsumerOffsetPath<'_>,
        offset: Offset,
    ) -> Result<(), ClientError> {
        self.call(&Command::StoreConsumerOffset(StoreConsumerOffset {
            path,
            offset: offset.0,
        }))
    }

    /// Get the stored offset of a consumer; `None` if none is stored.
    pub fn get_offset(
        &mut self,
        path: ConsumerOffsetPath<'_>,
    ) -> Result<Option<StoredOffset>, ClientError> {
        let command = Command::GetConsumerOffset(path);
        let payload = self.request(&command)?;
        if payload.is_empty() {
            return Ok(None);
        }
        let info = decode(&command, payload, ConsumerOffsetInfo::decode)?;
        Ok(Some(StoredOffset {
            partition_id: PartitionId(info.partition_id),
            current: Offset(info.current_offset),
            stored: Offset(info.stored_offset),
        }))
    }

    /// Delete the stored offset of a consumer.
    pub fn delete_offset(&mut self, path: ConsumerOffsetPath<'_>) -> Result<(), ClientError> {
        self.call(&Command::DeleteConsumerOffset(path))
    }

    /// Send any command and wait for its answer, which is returned undecoded.
    pub fn request(&mut self, command: &Command<'_>) -> Result<&[u8], ClientError> {
        self.link.send_command(command)?;
        self.link.receive(command.code(), &mut self.buffer)?;
        Ok(self.buffer.payload())
    }

    pub(crate) fn write_batch(&mut self, batch: &PreparedBatch) -> Result<(), ClientError> {
        self.link
            .send_parts(CommandCode::SendMessages, batch.parts())
    }

    pub(crate) fn read_empty_answer(&mut self, command: CommandCode) -> Result<(), ClientError> {
        self.link.receive_empty(command)
    }

    /// Execute a command whose answer has no payload.
    pub(crate) fn call(&mut self, command: &Command<'_>) -> Result<(), ClientError> {
        self.link.send_command(command)?;
        self.link.receive_empty(command.code())
    }

    /// Execute a query, for which an empty payload means "nothing found".
    pub(crate) fn query(&mut self, command: &Command<'_>) -> Result<&[u8], ClientError> {
        let payload = self.request(command)?;
        if payload.is_empty() {
            return Err(ClientError::NotFound {
                command: command.code(),
            });
        }
        Ok(payload)
    }

    fn request_identity(&mut self, command: &Command<'_>) -> Result<UserId, ClientError> {
        let identity = decode(command, self.request(command)?, Identity::decode)?;
        Ok(UserId(identity.user_id))
    }

    fn request_stream(&mut self, command: &Command<'_>) -> Result<StreamId, ClientError> {
        let details = decode(command, self.query(command)?, StreamDetails::decode)?;
        Ok(StreamId(details.stream.id))
    }

    fn request_topic(&mut self, command: &Command<'_>) -> Result<TopicInfo, ClientError> {
        let details = decode(command, self.query(command)?, TopicDetails::decode)?;
        Ok(TopicInfo {
            id: TopicId(details.topic.id),
            partitions_count: details.topic.partitions_count,
        })
    }
}

pub(crate) fn decode<'b, T>(
    command: &Command<'_>,
    payload: &'b [u8],
    decode: impl FnOnce(&'b [u8]) -> Result<T, Malformed>,
) -> Result<T, ClientError> {
    decode(payload).map_err(|source| ClientError::Malformed {
        command: command.code(),
        source,
    })
}
