//! Model of a partition node: keeps messages in memory, and sends answers only when asked to.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    num::NonZeroU16,
};

use headrace_buffer::Slice;
use headrace_link::{
    CallHeader, EndWait, PartitionRef, Refusal, RequestId, Scope, SmallToNode, StatisticsSnapshot,
    ToGateway, ToNode, TraceContext, WatchedState, WhenReady,
};
use headrace_model::{Namespace, NodeId, Offset, PartitionStatistics};
use headrace_partition::{Polled, Request, Response};
use headrace_ticket::{self as ticket, Key, Ticket};
use headrace_wire::{
    Command, Status,
    frame::{REQUEST_HEADER_BYTES, RequestHeader, ResponseHeader},
    message::MessageView,
};

use super::partition;

/// Shared secret of the cluster.
pub const SECRET: &[u8] = b"a secret of the cluster";

/// State shared by all nodes: the messages, and the placement of the partitions in each version of the catalog.
#[derive(Default)]
pub struct Truth {
    pub logs: BTreeMap<Namespace, Vec<Vec<u8>>>,
    raw: BTreeMap<Namespace, Vec<u8>>,
    holders: BTreeMap<u64, BTreeMap<Namespace, NodeId>>,
    /// Number of offsets stored so far.
    pub stored: u32,
}

impl Truth {
    /// Set the node of each partition from this version on.
    pub fn place(&mut self, version: u64, nodes: &[u32]) {
        let placed = (0..)
            .zip(nodes)
            .map(|(id, node)| (partition(id), NodeId(*node)));
        self.holders.insert(version, placed.collect());
    }

    fn holder(&self, version: u64, namespace: Namespace) -> Option<NodeId> {
        let (_, holders) = self.holders.range(..=version).next_back()?;
        holders.get(&namespace).copied()
    }

    fn append(&mut self, namespace: Namespace, mut messages: &[u8]) -> u32 {
        self.raw
            .entry(namespace)
            .or_default()
            .extend_from_slice(messages);
        let mut count = 0;
        while !messages.is_empty() {
            let (message, rest) = MessageView::split_first(messages).unwrap();
            let log = self.logs.entry(namespace).or_default();
            log.push(message.payload().to_vec());
            messages = rest;
            count += 1;
        }
        count
    }

    fn polled(&self, namespace: Namespace) -> Polled {
        let raw = self.raw.get(&namespace).cloned().unwrap_or_default();
        let count = self.logs.get(&namespace).map_or(0, Vec::len);
        if count == 0 {
            return Polled::default();
        }
        let last = Offset(count as u64 - 1);
        Polled {
            gap: None,
            current_offset: last,
            last_offset: Some(last),
            messages_count: u32::try_from(count).unwrap(),
            size_bytes: raw.len() as u64,
            slices: vec![Slice::from_vec(raw)],
        }
    }

    fn view(&self, namespace: Namespace) -> WatchedState {
        WatchedState {
            incarnation: 3,
            purge_epoch: 0,
            first: Offset(0),
            end: Offset(self.logs.get(&namespace).map_or(0, Vec::len) as u64),
            ..WatchedState::default()
        }
    }
}

/// One link from the view of the node.
#[derive(Default)]
pub struct Served {
    /// Bytes that were not decoded yet.
    pub unread: VecDeque<u8>,
    pub is_open: bool,
    announced: u64,
    refused: BTreeMap<Namespace, (u64, BTreeSet<RequestId>)>,
    /// Bytes that the node sends outside of frames.
    pub words: Vec<u8>,
    /// Answers to executed calls that were not sent yet.
    pub owed: Vec<ToGateway>,
    waits: BTreeMap<RequestId, PartitionRef>,
    watches: BTreeMap<Namespace, Option<WatchedState>>,
    calls: BTreeSet<RequestId>,
    /// True if the node reads nothing more.
    pub is_over: bool,
}

pub struct Node {
    pub id: NodeId,
    /// Version of the node's catalog.
    pub version: u64,
    /// Status with which links are refused.
    pub refuses: Option<Status>,
    /// True if the node reads and sends nothing.
    pub is_mute: bool,
    pub links_opened: u32,
    /// Trace contexts of the received requests.
    pub traces: Vec<TraceContext>,
    /// Number of request frames so far.
    pub requests: u32,
    pub links: BTreeMap<usize, Served>,
}

impl Node {
    pub fn new(id: u32) -> Self {
        Self {
            id: NodeId(id),
            version: 0,
            refuses: None,
            is_mute: false,
            links_opened: 0,
            traces: Vec::new(),
            requests: 0,
            links: BTreeMap::new(),
        }
    }

    /// Execute the requests that have arrived. Answers are queued in `owed`.
    pub fn work(&mut self, truth: &mut Truth) {
        for (socket, mut link) in std::mem::take(&mut self.links) {
            while !link.is_over && self.work_on(&mut link, truth) {}
            self.links.insert(socket, link);
        }
        self.notify(truth);
    }

    fn work_on(&mut self, link: &mut Served, truth: &mut Truth) -> bool {
        let unread = link.unread.make_contiguous();
        let Some(header) = unread.first_chunk::<REQUEST_HEADER_BYTES>() else {
            return false;
        };
        let header = RequestHeader::parse(header);
        let end = REQUEST_HEADER_BYTES + header.payload_bytes().expect("a frame") as usize;
        if unread.len() < end {
            return false;
        }
        let mut payload = unread[REQUEST_HEADER_BYTES..end].to_vec();
        let is_done = if link.is_open {
            let frame = ToNode::decode(header.code, &mut payload).expect("well said");
            let frame = match frame {
                small @ SmallToNode::Append { .. } => small.into_owned(),
                SmallToNode::Other(frame) => frame,
            };
            self.take(link, frame, truth)
        } else {
            self.open(link, &Command::decode(header.code, &payload).unwrap());
            true
        };
        if is_done {
            link.unread.drain(..end);
        }
        is_done
    }

    fn open(&mut self, link: &mut Served, command: &Command<'_>) {
        let Command::OpenLink(request) = command else {
            panic!("{command:?} opens no link");
        };
        assert_eq!(request.version, headrace_link::VERSION);
        assert_eq!(request.node_id, self.id.0);
        if let Some(status) = self.refuses {
            link.is_over = true;
            link.words.extend(ResponseHeader::error(status).encode());
            return;
        }
        let key = Key::derive(SECRET, "cluster");
        let ticket = Ticket::verify(request.ticket, &key, 1_700_000_010).expect("a ticket");
        assert_eq!(
            (ticket.holder.as_str(), ticket.scope),
            ("node", ticket::Scope::Cluster)
        );
        link.announced = request.catalog_version;
        link.is_open = true;
        self.links_opened += 1;
        link.owed.push(ToGateway::Welcome {
            catalog_version: self.version,
            node: self.id,
            shards: NonZeroU16::MIN,
        });
    }

    /// Return whether the partition is here, and if not, the version since when. `None`: the node does not know that
    /// yet.
    fn has(
        &self,
        link: &mut Served,
        (call, namespace): (Option<RequestId>, Namespace),
        truth: &Truth,
    ) -> Option<Result<(), u64>> {
        if let (Some(call), Some((version, calls))) = (call, link.refused.get_mut(&namespace)) {
            if !calls.contains(&call) {
                calls.insert(call);
                return Some(Err(*version));
            }
            // The gateway has received the refusal.
            link.refused.remove(&namespace);
        }
        if truth.holder(self.version, namespace) == Some(self.id) {
            return Some(Ok(()));
        }
        if link.announced > self.version {
            return None;
        }
        if let Some(call) = call {
            link.refused
                .insert(namespace, (self.version, BTreeSet::from([call])));
        }
        Some(Err(self.version))
    }

    fn take(&mut self, link: &mut Served, frame: ToNode, truth: &mut Truth) -> bool {
        let place = match &frame {
            ToNode::Request { header, .. } | ToNode::Wait { header, .. } => {
                Some((Some(header.call), header.place.namespace))
            }
            ToNode::Watch { place, .. } => Some((None, place.namespace)),
            _ => None,
        };
        let has = match place {
            Some(place) => match self.has(link, place, truth) {
                Some(has) => has,
                None => return false,
            },
            None => Ok(()),
        };
        match frame {
            ToNode::Request {
                header: CallHeader {
                    call, place, trace, ..
                },
                request,
                ..
            } => {
                self.requests += 1;
                self.traces.extend(trace);
                let frame = match has {
                    Ok(()) => {
                        assert!(link.calls.insert(call), "a call is made once");
                        let result = Ok(done(place.namespace, request, truth));
                        ToGateway::Answer { call, result }
                    }
                    Err(version) => ToGateway::WrongNode { call, version },
                };
                link.owed.push(frame);
            }
            ToNode::Wait {
                header: CallHeader { call, place, .. },
                when_ready,
                ..
            } => match has {
                Ok(()) if when_ready == WhenReady::AnswerNow && is_empty(truth, place) => {
                    let result = Err(Refusal::NotReady);
                    link.owed.push(ToGateway::Answer { call, result });
                }
                Ok(()) => {
                    link.waits.insert(call, place);
                }
                Err(version) => link.owed.push(ToGateway::WrongNode { call, version }),
            },
            ToNode::EndWait {
                call,
                reaction: stop,
                ..
            } => {
                if let Some(place) = link.waits.remove(&call) {
                    let result = match stop {
                        EndWait::Take => Ok(Response::Polled(truth.polled(place.namespace))),
                        EndWait::Refuse => Err(Refusal::NotReady),
                        EndWait::Cancel => return true,
                    };
                    link.owed.push(ToGateway::Answer { call, result });
                }
            }
            ToNode::Watch {
                place,
                last_state: seen,
                ..
            } => match has {
                Ok(()) => {
                    link.watches.insert(place.namespace, seen);
                }
                Err(version) => link.owed.push(ToGateway::NotWatched {
                    namespace: place.namespace,
                    version,
                }),
            },
            ToNode::Unwatch { namespace } => {
                link.watches.remove(&namespace);
            }
            ToNode::Statistics { call, scope } => {
                let statistics = self.statistics(scope, truth);
                link.owed.push(ToGateway::Statistics {
                    call,
                    partitions: statistics,
                });
            }
            ToNode::CatalogVersion(version) => {
                assert!(version >= link.announced);
                link.announced = version;
            }
        }
        true
    }

    fn statistics(&self, scope: Scope, truth: &Truth) -> Vec<StatisticsSnapshot> {
        let here = (truth.logs.iter()).filter(|(namespace, _)| {
            scope.covers(**namespace) && truth.holder(self.version, **namespace) == Some(self.id)
        });
        here.map(|(namespace, log)| {
            let statistics = PartitionStatistics::default();
            statistics.set_messages_count(log.len() as u64);
            let place = PartitionRef {
                namespace: *namespace,
                incarnation: 3,
                purge_epoch: 0,
            };
            StatisticsSnapshot::capture(place, &statistics)
        })
        .collect()
    }

    /// Notify waiting polls and watchers.
    fn notify(&mut self, truth: &Truth) {
        for link in self.links.values_mut().filter(|link| !link.is_over) {
            let ready = (link.waits.iter()).find(|(_, place)| !is_empty(truth, **place));
            if let Some((call, place)) = ready.map(|(call, place)| (*call, *place)) {
                link.waits.remove(&call);
                let result = Ok(Response::Polled(truth.polled(place.namespace)));
                link.owed.push(ToGateway::Answer { call, result });
            }
            link.watches.retain(|namespace, seen| {
                let view = truth.view(*namespace);
                let is_news = seen.as_ref() != Some(&view);
                if is_news {
                    let namespace = *namespace;
                    link.owed.push(ToGateway::StateChanged { namespace, view });
                }
                !is_news
            });
        }
    }

    /// Apply a new catalog: refuse waiting polls and watches of partitions that are now elsewhere.
    pub fn follow(&mut self, version: u64, truth: &Truth) {
        self.version = version;
        let (id, version) = (self.id, self.version);
        let is_here = |namespace| truth.holder(version, namespace) == Some(id);
        for link in self.links.values_mut().filter(|link| !link.is_over) {
            let owed = &mut link.owed;
            link.waits.retain(|call, place| {
                let stays = is_here(place.namespace);
                if !stays {
                    let call = *call;
                    owed.push(ToGateway::WrongNode { call, version });
                }
                stays
            });
            link.watches.retain(|namespace, _| {
                let stays = is_here(*namespace);
                if !stays {
                    let namespace = *namespace;
                    owed.push(ToGateway::NotWatched { namespace, version });
                }
                stays
            });
        }
    }
}

fn is_empty(truth: &Truth, place: PartitionRef) -> bool {
    truth.logs.get(&place.namespace).is_none_or(Vec::is_empty)
}

fn done(namespace: Namespace, request: Request, truth: &mut Truth) -> Response {
    match request {
        Request::Append { batch } => {
            let base = truth.logs.get(&namespace).map_or(0, Vec::len) as u64;
            let messages_count = truth.append(namespace, &batch.freeze());
            Response::Appended {
                base_offset: Offset(base),
                messages_count,
            }
        }
        Request::Poll(_) => Response::Polled(truth.polled(namespace)),
        Request::GetOffset { .. } => Response::Offset(None),
        _ => {
            truth.stored += 1;
            Response::Done
        }
    }
}
