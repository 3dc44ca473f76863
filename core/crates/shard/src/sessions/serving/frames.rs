//! Processing of frames from gateways.

use std::sync::Arc;

use headrace_catalog::Catalog;
use headrace_link::{
    CallHeader, EndWait, Membership, PartitionRef, Refusal, RequestId, Scope, SmallToNode,
    StatisticsSnapshot, ToGateway, ToNode, WhenReady,
};
use headrace_model::{Namespace, Timestamp};
use headrace_partition::{PartitionError, Request};
use headrace_wire::{CommandCode, frame::REQUEST_HEADER_BYTES};

use super::Serving;
use crate::{
    api::Effect,
    calls::{ConnectionKey, Origin, PartitionCall, Sequence, WaitingPoll},
    hosting::{BorrowedBatch, NotificationTarget, Watcher},
    memory::ReceiverId,
    meter,
    moment::Moment,
    sessions::{
        closing::DeadlineKind,
        connection::{Connection, Head, Pipeline, SMALL_PAYLOAD_BYTES_MAX},
        served::{GatewayLink, Held, PendingCall, places::Decision},
    },
};

/// Maximum time that a frame waits for the catalog version that its gateway already has.
const CATCH_UP_MICROS: u64 = 5_000_000;

/// Maximum frame size. Larger frames come from a peer that does not speak this protocol.
const FRAME_BYTES_MAX: usize = 1 << 30;

/// Current link, taken out of the shard while a frame is processed.
struct Link<'a> {
    key: ConnectionKey,
    served: &'a mut GatewayLink,
    pipeline: &'a mut Pipeline,
}

/// Partition that a frame addresses, with the call to answer and the membership of its caller.
fn addressed_partition(
    frame: &ToNode,
) -> Option<(Option<RequestId>, PartitionRef, Option<Membership>)> {
    match frame {
        ToNode::Request { header, .. } | ToNode::Wait { header, .. } => {
            Some((Some(header.call), header.place, header.member))
        }
        ToNode::Watch { place, .. } => Some((None, *place, None)),
        _ => None,
    }
}

impl Link<'_> {
    fn queue(&mut self, frame: ToGateway) {
        self.served.queue(frame, self.pipeline);
    }

    /// Refuse a batch that never fits into memory. Gateways may have more memory, and the other calls of the link go on.
    fn refuse_oversized(&mut self, code: u32, beginning: &[u8]) -> bool {
        let call = ToNode::call_of(code, beginning).ok();
        let Some(call) = call.filter(|call| !self.served.calls.contains_key(call)) else {
            self.served.is_broken = true;
            return false;
        };
        self.queue(ToGateway::Answer {
            call,
            result: Err(Refusal::Partition(PartitionError::MalformedBatch)),
        });
        true
    }
}

impl Serving<'_> {
    /// Process one frame. Returns false if there is none, if it has to wait, or if the link accepts no more frames.
    pub(crate) fn process_frame(
        &mut self,
        connection: &mut Connection,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Connection {
            key,
            inbox,
            pipeline,
            gateway_link: Some(served),
            ..
        } = connection
        else {
            return false;
        };
        let version = self.moment.catalog.version();
        let held = served.held.take_if(|held| held.version != version);
        if served.is_paused(pipeline) {
            served.held = held.or(served.held.take());
            return false;
        }
        let mut link = Link {
            key: *key,
            served,
            pipeline,
        };
        if let Some(held) = held {
            return self.take_frame(&mut link, held.frame, Some(held.until), effects);
        }
        if let Some((code, payload)) = inbox.take_large() {
            self.sessions.turns.spend(payload.len());
            let oversized_bytes = core::mem::take(&mut link.served.oversized_bytes);
            if oversized_bytes > 0 {
                inbox.discard(oversized_bytes);
                return link.refuse_oversized(code, &payload);
            }
            let Ok(frame) = ToNode::decode_owned(code, payload) else {
                link.served.is_broken = true;
                return false;
            };
            return self.take_frame(&mut link, frame, None, effects);
        }
        let (code, payload_bytes) = match inbox.head() {
            Head::Incomplete => return false,
            Head::Request {
                code,
                payload_bytes,
            } if payload_bytes <= FRAME_BYTES_MAX => (code, payload_bytes),
            Head::TooShort | Head::Request { .. } => {
                link.served.is_broken = true;
                return false;
            }
        };
        if payload_bytes > SMALL_PAYLOAD_BYTES_MAX {
            let receiver = ReceiverId::of(self.moment.config.shard, link.key);
            let receivable = self.memory.pool().receivable_bytes_max();
            let wanted_bytes = if payload_bytes <= receivable {
                payload_bytes
            } else {
                ToNode::CALL_BYTES
            };
            let begun = inbox.begin_large(code, wanted_bytes, self.memory.shared(), receiver);
            if begun.is_ok() {
                link.served.oversized_bytes = payload_bytes - wanted_bytes;
            }
            return begun.is_ok() && inbox.is_large_whole();
        }
        let Some(payload) = inbox.payload_mut(payload_bytes) else {
            return false;
        };
        self.sessions.turns.spend(payload_bytes);
        let goes_on = match ToNode::decode(code, payload) {
            Ok(SmallToNode::Append {
                header,
                messages,
                messages_count,
            }) if header.member.is_none() => {
                let batch = BorrowedBatch {
                    messages,
                    messages_count,
                };
                self.take_small_batch(&mut link, &header, batch, effects)
            }
            Ok(frame) => self.take_frame(&mut link, frame.into_owned(), None, effects),
            Err(_) => {
                link.served.is_broken = true;
                false
            }
        };
        inbox.consume(REQUEST_HEADER_BYTES + payload_bytes);
        goes_on
    }

    /// Process a batch whose messages are in the receive buffer.
    fn take_small_batch(
        &mut self,
        link: &mut Link<'_>,
        header: &CallHeader,
        batch: BorrowedBatch<'_>,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let catalog = self.moment.catalog;
        let namespace = header.place.namespace;
        let (call, place) = (Some(header.call), header.place);
        let verdict = (link.served).decide(self.partitions, catalog, call, place, None);
        match verdict {
            Decision::Take => {}
            Decision::Behind => {
                let batch = batch.copy(self.memory.pool());
                let frame = ToNode::Request {
                    header: *header,
                    request: Request::Append { batch },
                };
                return self.hold(link, frame, None);
            }
            _ => return refuse(link, header.call, namespace, &verdict),
        }
        let (command, bytes) = (CommandCode::SendMessages, batch.messages.len() as u64);
        let Some(origin) = self.begin(link, header, command, bytes, None) else {
            return false;
        };
        let call = PartitionCall {
            origin,
            namespace,
            request: batch,
        };
        self.partitions
            .append(catalog, call, self.moment.now, effects);
        true
    }

    fn take_frame(
        &mut self,
        link: &mut Link<'_>,
        frame: ToNode,
        until: Option<Timestamp>,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let catalog = self.moment.catalog;
        if let Some((call, place, member)) = addressed_partition(&frame) {
            let verdict = (link.served).decide(self.partitions, catalog, call, place, member);
            match (&verdict, &frame) {
                (Decision::Take, _) => {}
                (Decision::Behind, _) => return self.hold(link, frame, until),
                (_, ToNode::Request { header, .. } | ToNode::Wait { header, .. }) => {
                    return refuse(link, header.call, place.namespace, &verdict);
                }
                (Decision::NotHere(version), _) => {
                    return not_watched(link, place.namespace, *version);
                }
                // Watchers see that in the catalog.
                (Decision::NotFound, _) => return true,
            }
        }
        match frame {
            ToNode::Request { header, request } => {
                self.take_request(link, catalog, &header, request, effects)
            }
            ToNode::Wait {
                header,
                poll,
                when_ready,
            } => {
                let wanted = WaitingPoll { poll, when_ready };
                self.take_wait(link, catalog, &header, wanted, effects)
            }
            ToNode::EndWait {
                call,
                namespace,
                reaction: stop,
            } => {
                self.take_stop(link, call, namespace, stop);
                true
            }
            ToNode::Watch {
                place,
                last_state: seen,
                wants_openings,
            } => {
                link.served.watched.insert(place.namespace);
                let watcher = Watcher {
                    target: NotificationTarget::Link(link.key),
                    seen,
                    wants_openings,
                };
                let (namespace, now) = (place.namespace, self.moment.now);
                self.partitions
                    .watch(catalog, namespace, watcher, now, effects);
                true
            }
            ToNode::Unwatch { namespace } => {
                if link.served.watched.remove(&namespace) {
                    self.partitions
                        .unwatch(namespace, NotificationTarget::Link(link.key));
                }
                true
            }
            ToNode::Statistics { call, scope } => {
                let statistics = collect_statistics(self.moment, catalog, scope);
                link.queue(ToGateway::Statistics {
                    call,
                    partitions: statistics,
                });
                true
            }
            ToNode::CatalogVersion(version) => {
                let served = &mut *link.served;
                served.announced = served.announced.max(version);
                true
            }
        }
    }

    fn take_request(
        &mut self,
        link: &mut Link<'_>,
        catalog: &Arc<Catalog>,
        header: &CallHeader,
        request: Request,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let bytes = match &request {
            Request::Append { batch } | Request::Stage { batch, .. } => batch.size_bytes() as u64,
            _ => 0,
        };
        let command = request.command();
        let Some(origin) = self.begin(link, header, command, bytes, None) else {
            return false;
        };
        let call = PartitionCall {
            origin,
            namespace: header.place.namespace,
            request,
        };
        self.partitions
            .submit(catalog, call, self.moment.now, effects);
        true
    }

    fn take_wait(
        &mut self,
        link: &mut Link<'_>,
        catalog: &Arc<Catalog>,
        header: &CallHeader,
        wanted: WaitingPoll,
        effects: &mut Vec<Effect>,
    ) -> bool {
        if link.served.waiting_count >= self.moment.config.waited_partitions_max {
            link.queue(ToGateway::Answer {
                call: header.call,
                result: Err(Refusal::Partition(PartitionError::Busy)),
            });
            return true;
        }
        let command = CommandCode::WaitMessages;
        let Some(origin) = self.begin(link, header, command, 0, Some(wanted.when_ready)) else {
            return false;
        };
        let call = PartitionCall {
            origin,
            namespace: header.place.namespace,
            request: wanted,
        };
        self.partitions
            .wait(catalog, call, self.moment.now, effects);
        true
    }

    /// The poll may have been answered meanwhile.
    fn take_stop(
        &mut self,
        link: &mut Link<'_>,
        call: RequestId,
        namespace: Namespace,
        stop: EndWait,
    ) {
        let asked = link.served.calls.get(&call);
        let Some(asked) = asked.filter(|asked| asked.namespace == namespace) else {
            return;
        };
        let is_notified = asked.when_ready == Some(WhenReady::Notify);
        if is_notified != (stop == EndWait::Cancel) {
            return;
        }
        let origin = origin(self.moment, link.key, call);
        self.partitions.stop_waiting(origin, namespace, stop);
        if is_notified {
            link.served.end(call);
        }
    }

    /// Record a call as in flight. Returns `None` if one with its number exists; the link then accepts no more frames.
    fn begin(
        &mut self,
        link: &mut Link<'_>,
        header: &CallHeader,
        command: CommandCode,
        bytes: u64,
        when_ready: Option<WhenReady>,
    ) -> Option<Origin> {
        let served = &mut *link.served;
        if served.calls.contains_key(&header.call) {
            served.is_broken = true;
            return None;
        }
        if command == CommandCode::SendMessages {
            self.moment.meter.took(bytes);
        }
        let tracer = &self.moment.meter.tracer;
        let trace = header.trace.filter(|_| tracer.is_on());
        let trace = trace.map(|context| (tracer.next(), context));
        let begun = PendingCall {
            namespace: header.place.namespace,
            when_ready,
            bytes,
            began: self.moment.meter.now(),
            command: meter::CommandSlot::of(command.code()),
            trace,
        };
        served.begin(header.call, begun);
        Some(Origin {
            member: header.member,
            trace: trace.map(|(number, _)| number),
            ..origin(self.moment, link.key, header.call)
        })
    }

    /// Pause a link until the catalog that this frame requires has arrived.
    fn hold(&mut self, link: &mut Link<'_>, frame: ToNode, until: Option<Timestamp>) -> bool {
        let until = until.unwrap_or_else(|| {
            let until = Timestamp(self.moment.now.0 + CATCH_UP_MICROS);
            self.sessions
                .add_deadline(until, link.key, DeadlineKind::CatalogVersion);
            until
        });
        link.served.held = Some(Box::new(Held {
            frame,
            version: self.moment.catalog.version(),
            until,
        }));
        false
    }
}

pub(crate) fn origin(moment: Moment<'_>, key: ConnectionKey, call: RequestId) -> Origin {
    Origin {
        shard: moment.config.shard,
        connection: key,
        sequence: Sequence(call.0),
        member: None,
        trace: None,
    }
}

/// Refuse a call whose partition is elsewhere or does not exist.
fn refuse(link: &mut Link<'_>, call: RequestId, namespace: Namespace, verdict: &Decision) -> bool {
    let frame = match *verdict {
        Decision::NotHere(version) => {
            link.served.refuse(call, namespace, version);
            ToGateway::WrongNode { call, version }
        }
        _ => ToGateway::Answer {
            call,
            result: Err(Refusal::NotFound),
        },
    };
    link.queue(frame);
    true
}

fn not_watched(link: &mut Link<'_>, namespace: Namespace, version: u64) -> bool {
    link.queue(ToGateway::NotWatched { namespace, version });
    true
}

/// Statistics of the partitions of this node, on all its shards.
fn collect_statistics(
    moment: Moment<'_>,
    catalog: &Catalog,
    scope: Scope,
) -> Vec<StatisticsSnapshot> {
    let held = catalog.partitions().filter(|(_, partition)| {
        scope.covers(partition.namespace) && moment.config.hosts(catalog, partition.namespace)
    });
    held.map(|(topic, partition)| {
        let place = PartitionRef {
            namespace: partition.namespace,
            incarnation: partition.incarnation,
            purge_epoch: topic.purge_epoch,
        };
        StatisticsSnapshot::capture(place, &partition.statistics)
    })
    .collect()
}
