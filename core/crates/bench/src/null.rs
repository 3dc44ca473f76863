//! A server that does nothing: a run against it measures the network and the load generator.
//!
//! Run it as a process of its own, so that its CPU time is counted separately. It receives whole frames into a large
//! reused buffer, answers every batch with success and discards it, and answers every poll from memory.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use headrace_wire::batch::BatchBuilder;
use headrace_wire::frame::{REQUEST_HEADER_BYTES, RequestHeader, ResponseHeader};
use headrace_wire::message::{CHECKSUM_BYTES, HEADER_BYTES, HeaderMut, checksum};
use headrace_wire::response::{
    Identity, PartitionInfo, PolledHeader, Response, StreamDetails, StreamHeader, TopicDetails,
    TopicHeader, encode_frame,
};
use headrace_wire::{Command, CommandCode, CompressionAlgorithm, Identifier, Partitioning, Status};

use headrace_client::ClientError;

/// Initial size of a connection's buffer; it grows to the largest frame.
const BUFFER_BYTES: usize = 256 * 1024;
/// Number of partitions of the topic that always exists.
const PARTITIONS_COUNT: u32 = 1000;

/// Contents of the answers to polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NullOptions {
    /// Payload size of one message.
    pub message_size_bytes: u32,
    /// Number of messages kept in memory, and so the maximum that one poll returns.
    pub messages_count_max: u32,
    /// `TCP_NODELAY` on the connections.
    pub no_delay: bool,
}

impl Default for NullOptions {
    fn default() -> Self {
        Self {
            message_size_bytes: 1000,
            messages_count_max: 1000,
            no_delay: true,
        }
    }
}

/// A listener that is bound and not serving yet.
#[derive(Debug)]
pub struct NullListener {
    listener: TcpListener,
    no_delay: bool,
    messages: Arc<[u8]>,
    message_bytes: usize,
}

/// Bind and serve until the process ends. Returns only with an error.
pub fn serve(address: &str, options: &NullOptions) -> Result<(), ClientError> {
    NullListener::bind(address, options)?.serve()
}

impl NullListener {
    /// Bind to `host:port`; port 0 picks a free one. Messages are prepared here.
    pub fn bind(address: &str, options: &NullOptions) -> Result<Self, ClientError> {
        let listener = TcpListener::bind(address).map_err(|source| ClientError::System {
            action: "bind the listener",
            source,
        })?;
        let messages = prepare_messages(options).map_err(|reason| ClientError::InvalidSetting {
            setting: "message_size_bytes",
            reason,
        })?;
        Ok(Self {
            listener,
            no_delay: options.no_delay,
            messages,
            message_bytes: options.message_size_bytes as usize + HEADER_BYTES,
        })
    }

    /// Address that the listener is bound to.
    pub fn local_address(&self) -> Result<SocketAddr, ClientError> {
        self.listener
            .local_addr()
            .map_err(|source| ClientError::System {
                action: "read the address of the listener",
                source,
            })
    }

    /// Serve until the process ends, one thread per connection. Returns only with an error.
    pub fn serve(self) -> Result<(), ClientError> {
        loop {
            let (stream, _) = self
                .listener
                .accept()
                .map_err(|source| ClientError::System {
                    action: "accept a connection",
                    source,
                })?;
            let mut session = Session {
                stream,
                messages: Arc::clone(&self.messages),
                message_bytes: self.message_bytes,
                replies: Vec::with_capacity(4096),
            };
            let no_delay = self.no_delay;
            thread::spawn(move || {
                // A connection that breaks is the client's problem.
                let _ = session
                    .stream
                    .set_nodelay(no_delay)
                    .and_then(|()| session.serve());
            });
        }
    }
}

struct Session {
    stream: TcpStream,
    messages: Arc<[u8]>,
    message_bytes: usize,
    /// Answers that are not written yet.
    replies: Vec<u8>,
}

impl Session {
    fn serve(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut filled = 0;
        loop {
            let mut start = 0;
            let mut missing = REQUEST_HEADER_BYTES;
            while let Some(header) = buffer[start..filled].first_chunk() {
                let header = RequestHeader::parse(header);
                let payload_start = start + REQUEST_HEADER_BYTES;
                let end = payload_start + header.payload_bytes().unwrap_or(0) as usize;
                missing = end - start;
                if end > filled {
                    break;
                }
                self.answer(header, &buffer[payload_start..end])?;
                start = end;
                missing = REQUEST_HEADER_BYTES;
            }
            self.flush()?;
            buffer.copy_within(start..filled, 0);
            filled -= start;
            if buffer.len() < missing {
                buffer.resize(missing.next_power_of_two(), 0);
            }
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => return Ok(()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn answer(&mut self, header: RequestHeader, payload: &[u8]) -> io::Result<()> {
        let empty = ResponseHeader::EMPTY.encode();
        if header.code == CommandCode::SendMessages.code() {
            self.replies.extend_from_slice(&empty);
            return Ok(());
        }
        let command = match header.payload_bytes() {
            Some(_) => Command::decode(header.code, payload),
            None => Err(Status::INVALID_COMMAND),
        };
        match command {
            Ok(Command::PollMessages(poll)) => return self.answer_poll(poll.count),
            Ok(command) => match response_to(&command) {
                Some(response) => encode_frame(&mut self.replies, |out| response.encode(out)),
                None => self.replies.extend_from_slice(&empty),
            },
            Err(status) => self
                .replies
                .extend_from_slice(&ResponseHeader::error(status).encode()),
        }
        Ok(())
    }

    fn answer_poll(&mut self, count: u32) -> io::Result<()> {
        let length = (count as usize)
            .saturating_mul(self.message_bytes)
            .min(self.messages.len());
        let messages_count =
            u32::try_from(length / self.message_bytes).expect("no more than the options ask for");
        let head = PolledHeader {
            partition_id: 0,
            current_offset: u64::MAX,
            messages_count,
        }
        .frame_head(length as u64);
        let Some(head) = head else {
            let refusal = ResponseHeader::error(Status::INVALID_COMMAND);
            self.replies.extend_from_slice(&refusal.encode());
            return Ok(());
        };
        self.flush()?;
        let mut slices = [IoSlice::new(&head), IoSlice::new(&self.messages[..length])];
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            match self.stream.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.replies.is_empty() {
            self.stream.write_all(&self.replies)?;
            self.replies.clear();
        }
        Ok(())
    }
}

/// Response that a load generator needs before it starts; `None`: an empty success is enough.
fn response_to<'a>(command: &Command<'a>) -> Option<Response<'a>> {
    match command {
        Command::LoginUser(_) | Command::LoginWithPersonalAccessToken(_) => {
            Some(Response::Identity(Identity { user_id: 0 }))
        }
        Command::CreateStream(request) => Some(stream(request.name)),
        Command::GetStream(_) => Some(stream("null")),
        Command::CreateTopic(request) => Some(topic(request.name, request.partitions_count)),
        Command::GetTopic(_) => Some(topic("null", PARTITIONS_COUNT)),
        _ => None,
    }
}

fn stream(name: &str) -> Response<'_> {
    Response::Stream(StreamDetails {
        stream: StreamHeader {
            id: 0,
            created_at: 0,
            topics_count: 0,
            size_bytes: 0,
            messages_count: 0,
            name,
        },
        topics: Vec::new(),
    })
}

fn topic(name: &str, partitions_count: u32) -> Response<'_> {
    Response::Topic(TopicDetails {
        topic: TopicHeader {
            id: 0,
            created_at: 0,
            partitions_count,
            message_expiry: u64::MAX,
            compression: CompressionAlgorithm::None,
            max_topic_size: u64::MAX,
            replication_factor: 1,
            size_bytes: 0,
            messages_count: 0,
            name,
        },
        // Limited to the existing partitions: the count comes from the client.
        partitions: (0..partitions_count.min(PARTITIONS_COUNT))
            .map(|id| PartitionInfo {
                id,
                created_at: 0,
                segments_count: 1,
                current_offset: 0,
                size_bytes: 0,
                messages_count: 0,
            })
            .collect(),
    })
}

/// Prepare messages as a partition stores them: offsets from 0, checksums set.
fn prepare_messages(options: &NullOptions) -> Result<Arc<[u8]>, String> {
    let payload = vec![0x5a; options.message_size_bytes as usize];
    let mut builder = BatchBuilder::new();
    for _ in 0..options.messages_count_max {
        builder
            .push(0, 0, &payload, &[])
            .map_err(|error| error.to_string())?;
    }
    let nowhere = Identifier::Numeric(0);
    let request = builder.request(nowhere, nowhere, Partitioning::Balanced);
    let mut messages = request.messages.to_vec();
    for (offset, message) in (0..).zip(messages.chunks_exact_mut(payload.len() + HEADER_BYTES)) {
        if let Some(header) = message.first_chunk_mut() {
            HeaderMut(header).set_offset(offset);
        }
        let sum = checksum(&message[CHECKSUM_BYTES..]);
        message[..CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    }
    Ok(messages.into())
}
