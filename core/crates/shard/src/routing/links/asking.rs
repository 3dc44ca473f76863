//! Conversion of a connection's requests for partitions into calls.

use headrace_buffer::Slice;
use headrace_catalog::Catalog;
use headrace_link::{self as link, CallHeader, Refusal, RequestId, ToNode, WhenReady};
use headrace_model::{Namespace, Timestamp};
use headrace_partition::Request;
use headrace_wire::command::Attributes;

use super::{
    LinkEvent, Links,
    budget::Charge,
    calls::{CallState, Kind, PendingCall},
};
use crate::{
    api::Effect,
    calls::{Mail, PartitionAnswer, PartitionCall, WaitingPoll},
    moment::Moment,
};

/// Return the partition that the catalog has under these numbers, with its incarnation.
pub(super) fn identity(catalog: &Catalog, namespace: Namespace) -> Option<link::PartitionRef> {
    let topic = catalog
        .stream_by_id(namespace.stream())?
        .topic_by_id(namespace.topic())?;
    Some(link::PartitionRef {
        namespace,
        incarnation: topic.partition(namespace.partition())?.incarnation,
        purge_epoch: topic.purge_epoch,
    })
}

/// Return whether a request changes nothing, so that it may be sent twice.
fn is_idempotent(request: &Request) -> bool {
    match request {
        Request::Poll(poll) => !poll.auto_commit,
        request => request.command().attributes().has(Attributes::READ_ONLY),
    }
}

/// Answer that a call expects, and whether the call may be sent again without one.
#[derive(Clone, Copy)]
struct Expected {
    kind: Kind,
    is_idempotent: bool,
}

impl Links {
    /// Send a request to the node that hosts the partition.
    pub(crate) fn take(&mut self, moment: Moment<'_>, mail: Mail, effects: &mut Vec<Effect>) {
        match mail {
            Mail::Call(call) => self.request(moment, call, effects),
            Mail::Wait(call) => self.wait(moment, call, effects),
            Mail::StopWaiting {
                origin,
                namespace,
                stop,
            } => self.stop_waiting(moment, origin, namespace, stop),
            Mail::Watch {
                namespace, seen, ..
            } => self.watch(moment, namespace, seen, effects),
            Mail::Unwatch { namespace, .. } => self.unwatch(moment, namespace),
            Mail::Answer(_)
            | Mail::MessagesAvailable { .. }
            | Mail::ViewChanged { .. }
            | Mail::Reclaim { .. }
            | Mail::MemoryAvailable => {
                debug_assert!(false, "nodes are asked, not answered");
            }
        }
    }

    fn request(&mut self, moment: Moment<'_>, call: PartitionCall, effects: &mut Vec<Effect>) {
        let PartitionCall {
            origin,
            namespace,
            request,
        } = call;
        let expected = PartitionCall {
            origin,
            namespace,
            request: Expected {
                kind: Kind::Request,
                is_idempotent: is_idempotent(&request),
            },
        };
        let trace = self.trace.take();
        let frame = |call, place| {
            let frame = ToNode::Request {
                header: CallHeader {
                    call,
                    place,
                    member: origin.member,
                    trace,
                },
                request,
            };
            frame.encode()
        };
        self.ask(moment, expected, frame, effects);
    }

    fn wait(
        &mut self,
        moment: Moment<'_>,
        call: PartitionCall<WaitingPoll>,
        effects: &mut Vec<Effect>,
    ) {
        let PartitionCall {
            origin,
            namespace,
            request: WaitingPoll { poll, when_ready },
        } = call;
        let expected = PartitionCall {
            origin,
            namespace,
            request: Expected {
                kind: Kind::Wait {
                    when_ready,
                    stop: None,
                },
                is_idempotent: when_ready == WhenReady::Notify || !poll.auto_commit,
            },
        };
        let frame = |call, place| {
            let frame = ToNode::Wait {
                header: CallHeader {
                    call,
                    place,
                    member: origin.member,
                    trace: None,
                },
                poll,
                when_ready,
            };
            frame.encode()
        };
        self.ask(moment, expected, frame, effects);
    }

    fn ask(
        &mut self,
        moment: Moment<'_>,
        expected: PartitionCall<Expected>,
        frame: impl FnOnce(RequestId, link::PartitionRef) -> Vec<Slice>,
        effects: &mut Vec<Effect>,
    ) {
        let PartitionCall {
            origin,
            namespace,
            request: Expected {
                kind,
                is_idempotent,
            },
        } = expected;
        let Some(place) = identity(moment.catalog, namespace) else {
            let answer = PartitionAnswer {
                origin,
                namespace,
                result: Err(Refusal::NotFound),
            };
            return self.events.push(LinkEvent::Answer {
                answer,
                has_waited: false,
            });
        };
        let call = self.calls.next();
        let frame = frame(call, place);
        let way = self.peer_of(moment.catalog, namespace);
        let bytes = frame.iter().map(Slice::len).sum();
        let charge = match kind {
            Kind::Request => self.budgets.begin(way, bytes, origin.connection),
            Kind::Wait { .. } => Charge::none(way),
        };
        let asked = PendingCall {
            origin,
            namespace,
            incarnation: place.incarnation,
            kind,
            is_idempotent,
            frame,
            charge,
            state: CallState::Parked {
                until: Timestamp(u64::MAX),
            },
            is_answer_expected: false,
            began: moment.now,
            until: None,
        };
        self.enter(moment, call, asked, way, effects);
    }
}
