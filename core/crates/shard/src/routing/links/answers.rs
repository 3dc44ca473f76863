//! Processing of frames from nodes.

use headrace_link::{Refusal, RequestId, ToGateway};
use headrace_partition::Response;
use headrace_wire::{Status, frame::REQUEST_HEADER_BYTES};

use super::{
    LinkEvent, Links,
    calls::{CallState, Kind},
    link::{Link, State},
};
use crate::{
    api::Effect,
    calls::{PartitionAnswer, Peer},
    memory::{Receiver, ReceiverId},
    moment::Moment,
    sessions::connection::{Head, SMALL_PAYLOAD_BYTES_MAX},
};

/// Maximum frame size. Larger frames come from a peer that does not speak this protocol.
const FRAME_BYTES_MAX: usize = 1 << 30;

/// Time of an answer above which its client may have been unable to send heartbeats.
const LONG_MICROS: u64 = 1_000_000;

/// Reason why a link is no longer read.
enum End {
    /// Protocol violation or broken stream.
    Broken(&'static str),
    /// The node drains the link, or refuses it.
    Refused(Status),
}

/// First item in a link's inbox.
enum Front {
    Nothing,
    Frame(ToGateway),
    End(End),
}

impl Links {
    /// Process what has arrived on a link.
    pub(super) fn read(&mut self, moment: Moment<'_>, peer: Peer, effects: &mut Vec<Effect>) {
        loop {
            let front = self.front(peer);
            let end = match front {
                Front::Nothing => return,
                Front::Frame(frame) => match self.take_frame(moment, peer, frame, effects) {
                    Ok(()) => continue,
                    Err(end) => end,
                },
                Front::End(end) => end,
            };
            return match end {
                End::Broken(problem) => self.lose(moment, peer, problem, effects),
                End::Refused(status) => self.refused(moment, peer, status, effects),
            };
        }
    }

    /// Return the next frame, if it is complete.
    fn front(&mut self, peer: Peer) -> Front {
        let Some(link) = self.by_peer.get_mut(&peer) else {
            return Front::Nothing;
        };
        link.is_starved = false;
        let broken = |problem| Front::End(End::Broken(problem));
        let decoded = |result: Result<ToGateway, headrace_link::DecodeError>| match result {
            Ok(frame) => Front::Frame(frame),
            Err(_) => broken("what it says is not understood"),
        };
        loop {
            if let Some((code, buffer)) = link.inbox.take_large() {
                return decoded(ToGateway::decode_owned(code, buffer));
            }
            let (code, bytes) = match link.inbox.head() {
                Head::Incomplete => return Front::Nothing,
                // Too short for a frame: the beginning of a refusal with a low status code.
                Head::TooShort => return Front::End(End::Refused(Status::INVALID_COMMAND)),
                Head::Request {
                    code,
                    payload_bytes,
                } => (code, payload_bytes),
            };
            if code == 0 {
                let header = headrace_wire::frame::RequestHeader::new(code, bytes);
                let status = header.and_then(headrace_link::refusal);
                return Front::End(status.map_or(End::Broken("it says nothing"), End::Refused));
            }
            if bytes > FRAME_BYTES_MAX {
                return broken("a frame is too large");
            }
            if bytes > SMALL_PAYLOAD_BYTES_MAX {
                let receiver = ReceiverId {
                    shard: self.config.shard,
                    receiver: Receiver::Link(peer),
                };
                let begun = link.inbox.begin_large(code, bytes, &self.memory, receiver);
                if begun.is_err() {
                    link.is_starved = true;
                    return Front::Nothing;
                }
                if link.inbox.is_large_whole() {
                    continue;
                }
                return Front::Nothing;
            }
            let Some(payload) = link.inbox.payload_mut(bytes) else {
                return Front::Nothing;
            };
            let result = ToGateway::decode(code, payload);
            link.inbox.consume(REQUEST_HEADER_BYTES + bytes);
            return decoded(result);
        }
    }

    fn take_frame(
        &mut self,
        moment: Moment<'_>,
        peer: Peer,
        frame: ToGateway,
        effects: &mut Vec<Effect>,
    ) -> Result<(), End> {
        let is_open = self.by_peer.get(&peer).is_some_and(Link::is_open);
        if is_open == matches!(frame, ToGateway::Welcome { .. }) {
            return Err(End::Broken("it says things out of their order"));
        }
        match frame {
            ToGateway::Welcome { node, .. } if node != peer.node => {
                return Err(End::Broken("another node is there"));
            }
            ToGateway::Welcome { .. } => self.welcomed(moment, peer, effects),
            ToGateway::Answer { call, result } => {
                self.answered(moment, peer, call, result, effects);
            }
            ToGateway::PollReady { call } => self.notify_available(peer, call),
            ToGateway::StateChanged { namespace, view } => self.seen(peer, namespace, view),
            ToGateway::WrongNode { call, version } => {
                self.not_here(moment, peer, call, version, effects);
            }
            ToGateway::NotWatched { namespace, version } => {
                self.not_watched(moment, peer, namespace, version);
            }
            ToGateway::Statistics {
                call,
                partitions: statistics,
            } => {
                self.apply_statistics(moment, peer, call, &statistics);
            }
        }
        Ok(())
    }

    /// Return whether a call waits for an answer of this node.
    pub(super) fn is_with(&self, peer: Peer, call: RequestId) -> bool {
        (self.calls.get(call))
            .is_some_and(|asked| matches!(asked.state, CallState::Sent { to, .. } if to == peer))
    }

    fn answered(
        &mut self,
        moment: Moment<'_>,
        peer: Peer,
        call: RequestId,
        result: Result<Response, Refusal>,
        effects: &mut Vec<Effect>,
    ) {
        // Answer of a poll that was cancelled.
        if !self.is_with(peer, call) {
            return;
        }
        let Some(asked) = self.end(call) else {
            return;
        };
        let namespace = asked.namespace;
        self.events.push(LinkEvent::Answer {
            answer: PartitionAnswer {
                origin: asked.origin,
                namespace,
                result,
            },
            has_waited: asked.began.0 + LONG_MICROS < moment.now.0,
        });
        if asked.keeps_order() {
            self.settle(moment, namespace, effects);
        }
    }

    fn notify_available(&mut self, peer: Peer, call: RequestId) {
        let is_wait =
            (self.calls.get(call)).is_some_and(|asked| matches!(asked.kind, Kind::Wait { .. }));
        if is_wait
            && self.is_with(peer, call)
            && let Some(asked) = self.end(call)
        {
            self.events.push(LinkEvent::MessagesAvailable {
                origin: asked.origin,
                namespace: asked.namespace,
            });
        }
    }

    /// Process a node's refusal, or the end of a link that it drained.
    fn refused(
        &mut self,
        moment: Moment<'_>,
        peer: Peer,
        status: Status,
        effects: &mut Vec<Effect>,
    ) {
        let state = self.by_peer.get(&peer).map(|link| link.state);
        if matches!(state, Some(State::Open { .. })) && status == Status::DISCONNECTED {
            self.leave(moment, peer, effects);
        } else {
            let reason = format!("it refuses with status {}", status.0);
            self.lose(moment, peer, &reason, effects);
        }
    }
}
