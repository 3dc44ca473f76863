//! A minimal in-memory server with one stream and one topic, simple enough to be obviously correct.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use headrace_wire::command::{ConsumerOffsetPath, PollMessages};
use headrace_wire::frame::{REQUEST_HEADER_BYTES, RequestHeader, ResponseHeader};
use headrace_wire::message::{CHECKSUM_BYTES, HeaderMut, MessageView, Messages, checksum};
use headrace_wire::response::{
    ConsumerOffsetInfo, GroupDetails, GroupHeader, GroupMember, Identity, PartitionInfo, Polled,
    PolledHeader, Response, StreamDetails, StreamHeader, TopicDetails, TopicHeader, encode_frame,
};
use headrace_wire::{
    Command, CompressionAlgorithm, Partitioning, PollingStrategy, SendMessages, Status, batch,
};

/// Listen on a free port and serve every connection by `serve` on a thread of its own.
pub fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Read the next frame: its code and payload; `None` if the client has disconnected.
pub fn read_frame(stream: &mut TcpStream) -> Option<(u32, Vec<u8>)> {
    let mut header = [0; REQUEST_HEADER_BYTES];
    stream.read_exact(&mut header).ok()?;
    let header = RequestHeader::parse(&header);
    let mut payload = vec![0; header.payload_bytes()? as usize];
    stream.read_exact(&mut payload).ok()?;
    Some((header.code, payload))
}

/// Deliberate faults.
#[allow(dead_code, reason = "the tests of the load generator inject them")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// Every message at this offset is returned with a modified payload.
    FlipPayloadAt(u64),
    /// Polls skip the message at this offset.
    SkipOffset(u64),
    /// Batches are refused after this number was accepted.
    RefuseAfter(usize),
}

/// The only group, which has one member at most: it owns every partition.
#[derive(Debug)]
struct Group {
    name: String,
    has_member: bool,
}

#[derive(Debug)]
struct State {
    stream_exists: bool,
    /// Messages of each partition; `None`: no topic.
    partitions: Option<Vec<Vec<Vec<u8>>>>,
    balanced: usize,
    batches: usize,
    stored: BTreeMap<(u32, u32), u64>,
    group: Option<Group>,
    fault: Fault,
}

/// Server state, shared with the test.
#[derive(Debug, Clone)]
pub struct MemoryServer {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl MemoryServer {
    pub fn start(fault: Fault) -> Self {
        let state = Arc::new(Mutex::new(State {
            stream_exists: false,
            partitions: None,
            balanced: 0,
            batches: 0,
            stored: BTreeMap::new(),
            group: None,
            fault,
        }));
        let address = listen({
            let state = Arc::clone(&state);
            move |stream| {
                // The client closing the connection is the regular end.
                let _ = serve(stream, &state);
            }
        });
        Self { address, state }
    }

    /// Number of messages in each partition.
    pub fn messages_counts(&self) -> Vec<usize> {
        let state = self.state.lock().expect("no panic");
        let partitions = state.partitions.as_deref().unwrap_or_default();
        partitions.iter().map(Vec::len).collect()
    }

    pub fn has_stream(&self) -> bool {
        self.state.lock().expect("no panic").stream_exists
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    while let Some((code, payload)) = read_frame(&mut stream) {
        let answer = Command::decode(code, &payload)
            .and_then(|command| state.lock().expect("no panic").execute(&command));
        let mut out = Vec::new();
        match answer {
            Ok(payload) => encode_frame(&mut out, |out| out.extend_from_slice(&payload)),
            Err(status) => out.extend_from_slice(&ResponseHeader::error(status).encode()),
        }
        stream.write_all(&out)?;
    }
    Ok(())
}

impl State {
    /// Execute a command; returns the payload of the answer.
    fn execute(&mut self, command: &Command<'_>) -> Result<Vec<u8>, Status> {
        let response = match command {
            Command::LoginUser(login) if login.password == "iggy" => {
                Response::Identity(Identity { user_id: 0 })
            }
            Command::LoginUser(_) => return Err(Status::INVALID_CREDENTIALS),
            Command::LoginWithPersonalAccessToken(_) => Response::Identity(Identity { user_id: 7 }),
            Command::CreateStream(_) if self.stream_exists => {
                return Err(Status::STREAM_NAME_ALREADY_EXISTS);
            }
            Command::CreateStream(_) => {
                self.stream_exists = true;
                stream()
            }
            Command::GetStream(_) if self.stream_exists => stream(),
            Command::DeleteStream(_) if !self.stream_exists => {
                return Err(Status::STREAM_ID_NOT_FOUND);
            }
            Command::DeleteStream(_) => {
                self.stream_exists = false;
                self.partitions = None;
                self.stored.clear();
                Response::Empty
            }
            Command::CreateTopic(_) if self.partitions.is_some() => {
                return Err(Status::TOPIC_NAME_ALREADY_EXISTS);
            }
            Command::CreateTopic(request) => {
                let count = request.partitions_count as usize;
                self.partitions = Some(vec![Vec::new(); count]);
                topic(count)
            }
            Command::GetTopic(_) if self.partitions.is_some() => {
                topic(self.partitions.as_ref().map_or(0, Vec::len))
            }
            Command::DeleteTopic(_) => {
                self.partitions = None;
                Response::Empty
            }
            Command::SendMessages(request) => {
                self.append(request)?;
                Response::Empty
            }
            Command::PollMessages(request) => return self.poll(request),
            Command::StoreConsumerOffset(request) => {
                self.stored.insert(key(&request.path), request.offset);
                Response::Empty
            }
            Command::GetConsumerOffset(path) => match self.stored.get(&key(path)) {
                Some(&stored_offset) => Response::ConsumerOffset(ConsumerOffsetInfo {
                    partition_id: path.partition_id.unwrap_or(0),
                    current_offset: 99,
                    stored_offset,
                }),
                None => Response::Empty,
            },
            Command::DeleteConsumerOffset(path) => {
                if self.stored.remove(&key(path)).is_none() {
                    return Err(Status::CONSUMER_OFFSET_NOT_FOUND);
                }
                Response::Empty
            }
            Command::CreateConsumerGroup(_) if self.group.is_some() => {
                return Err(Status::CONSUMER_GROUP_NAME_ALREADY_EXISTS);
            }
            Command::CreateConsumerGroup(request) => {
                self.group = Some(Group {
                    name: request.name.to_owned(),
                    has_member: false,
                });
                Response::Group(self.group_details().expect("just made"))
            }
            Command::GetConsumerGroup(_) => self
                .group_details()
                .map_or(Response::Empty, Response::Group),
            Command::GetConsumerGroups(_) => {
                let groups = self.group_details().into_iter();
                Response::Groups(groups.map(|details| details.group).collect())
            }
            Command::DeleteConsumerGroup(_) => {
                self.group
                    .take()
                    .ok_or(Status::CONSUMER_GROUP_ID_NOT_FOUND)?;
                Response::Empty
            }
            Command::JoinConsumerGroup(_) | Command::LeaveConsumerGroup(_) => {
                self.group
                    .as_mut()
                    .ok_or(Status::CONSUMER_GROUP_ID_NOT_FOUND)?
                    .has_member = matches!(command, Command::JoinConsumerGroup(_));
                Response::Empty
            }
            _ => Response::Empty,
        };
        let mut payload = Vec::new();
        response.encode(&mut payload);
        Ok(payload)
    }

    fn group_details(&self) -> Option<GroupDetails<'_>> {
        let group = self.group.as_ref()?;
        let partitions = 0..u32::try_from(self.partitions.as_ref()?.len()).expect("few");
        let member = GroupMember {
            id: 44,
            partitions: partitions.clone().collect(),
        };
        Some(GroupDetails {
            group: GroupHeader {
                id: 33,
                partitions_count: partitions.end,
                members_count: u32::from(group.has_member),
                name: &group.name,
            },
            members: group.has_member.then_some(member).into_iter().collect(),
        })
    }

    fn append(&mut self, request: &SendMessages<'_>) -> Result<(), Status> {
        batch::validate(request.indexes, request.messages, request.messages_count)?;
        if self.fault == Fault::RefuseAfter(self.batches) {
            return Err(Status::TOPIC_ID_NOT_FOUND);
        }
        self.batches += 1;
        let balanced = self.balanced;
        let partitions = self.partitions.as_mut().ok_or(Status::TOPIC_ID_NOT_FOUND)?;
        let index = match request.partitioning {
            Partitioning::Balanced => {
                self.balanced += 1;
                balanced % partitions.len()
            }
            Partitioning::PartitionId(id) => id as usize,
            Partitioning::MessagesKey(_) => 0,
        };
        let partition = partitions
            .get_mut(index)
            .ok_or(Status::PARTITION_NOT_FOUND)?;
        for message in Messages::new(request.messages) {
            let mut bytes = message.expect("validated").bytes().to_vec();
            let offset = partition.len() as u64;
            HeaderMut(bytes.first_chunk_mut().expect("whole")).set_offset(offset);
            let sum = checksum(&bytes[CHECKSUM_BYTES..]);
            HeaderMut(bytes.first_chunk_mut().expect("whole")).set_checksum(sum);
            if self.fault == Fault::FlipPayloadAt(offset) {
                *bytes.last_mut().expect("not empty") ^= 1;
            }
            partition.push(bytes);
        }
        Ok(())
    }

    fn poll(&mut self, request: &PollMessages<'_>) -> Result<Vec<u8>, Status> {
        let partition_id = request.partition_id.unwrap_or(0);
        let key = (partition_id, request.consumer.key());
        let partitions = self.partitions.as_ref().ok_or(Status::TOPIC_ID_NOT_FOUND)?;
        let partition = partitions
            .get(partition_id as usize)
            .ok_or(Status::PARTITION_NOT_FOUND)?;
        let count = request.count as usize;
        let start = match request.strategy {
            PollingStrategy::Offset(offset) => usize::try_from(offset).expect("small"),
            PollingStrategy::Last => partition.len().saturating_sub(count),
            PollingStrategy::Next => self
                .stored
                .get(&key)
                .map_or(0, |&stored| usize::try_from(stored).expect("small") + 1),
            PollingStrategy::First | PollingStrategy::Timestamp(_) => 0,
        };
        let fault = self.fault;
        let selected: Vec<&[u8]> = partition
            .iter()
            .skip(start)
            .map(Vec::as_slice)
            .filter(|message| fault != Fault::SkipOffset(offset_of(message)))
            .take(count)
            .collect();
        if request.auto_commit
            && let Some(last) = selected.last()
        {
            self.stored.insert(key, offset_of(last));
        }
        let mut payload = Vec::new();
        Polled {
            header: PolledHeader {
                partition_id,
                current_offset: (partition.len() as u64).saturating_sub(1),
                messages_count: u32::try_from(selected.len()).expect("few"),
            },
            message_bytes: &selected.concat(),
        }
        .encode(&mut payload);
        Ok(payload)
    }
}

fn offset_of(message: &[u8]) -> u64 {
    let (message, _) = MessageView::split_first(message).expect("whole");
    message.header().offset()
}

fn key(path: &ConsumerOffsetPath<'_>) -> (u32, u32) {
    (path.partition_id.unwrap_or(0), path.consumer.key())
}

fn stream() -> Response<'static> {
    Response::Stream(StreamDetails {
        stream: StreamHeader {
            id: 11,
            created_at: 1,
            topics_count: 0,
            size_bytes: 0,
            messages_count: 0,
            name: "s",
        },
        topics: Vec::new(),
    })
}

fn topic(partitions_count: usize) -> Response<'static> {
    let partitions_count = u32::try_from(partitions_count).expect("few");
    Response::Topic(TopicDetails {
        topic: TopicHeader {
            id: 22,
            created_at: 1,
            partitions_count,
            message_expiry: u64::MAX,
            compression: CompressionAlgorithm::None,
            max_topic_size: u64::MAX,
            replication_factor: 1,
            size_bytes: 0,
            messages_count: 0,
            name: "t",
        },
        partitions: (0..partitions_count)
            .map(|id| PartitionInfo {
                id,
                created_at: 1,
                segments_count: 1,
                current_offset: 0,
                size_bytes: 0,
                messages_count: 0,
            })
            .collect(),
    })
}
