//! Order of the calls to one partition.
//!
//! Only batches of one connection can be in flight together. They must reach the partition in their order, over
//! whichever links. Therefore nothing is sent to another node before everything sent to the previous one is answered,
//! and calls that are repeated precede later ones.

use std::collections::BTreeSet;

use headrace_link::{Refusal, RequestId};
use headrace_model::{Namespace, Timestamp};

use super::{
    LinkEvent, Links,
    calls::{CallState, Kind, PendingCall},
    lane::Retry,
    link::Link,
};
use crate::{
    api::Effect,
    calls::{PartitionAnswer, Peer},
    moment::Moment,
};

/// First pause before a call is repeated at a node that refused it and that the catalog still names.
const PAUSE_MICROS: u64 = 50_000;
/// Divisor of `links.unsent_timeout` for the minimum wait of a call, within which a lost link is tried again.
const RETRY_PART: u64 = 8;
/// Maximum number of times that the pause doubles.
const PAUSE_DOUBLINGS_MAX: u32 = 5;

impl Links {
    /// Send a new call, or park it until it can be sent.
    pub(super) fn enter(
        &mut self,
        moment: Moment<'_>,
        call: RequestId,
        asked: PendingCall,
        way: Option<Peer>,
        effects: &mut Vec<Effect>,
    ) {
        let namespace = asked.namespace;
        self.calls.insert(call, asked);
        let lane = self.lanes.entry(namespace).or_default();
        let is_open = |peer: &Peer| self.by_peer.get(peer).is_some_and(Link::is_open);
        let open = way.filter(|peer| lane.is_free() && lane.leads_to(*peer) && is_open(peer));
        if let Some(peer) = open {
            self.send(moment, call, peer);
        } else {
            self.park(moment.now, call);
            self.pump(moment, namespace, effects);
        }
    }

    /// Park a call in its lane.
    pub(super) fn park(&mut self, now: Timestamp, call: RequestId) {
        let Some(asked) = self.calls.get(call) else {
            return;
        };
        let namespace = asked.namespace;
        let limit = self.limit_of_wait(now, namespace);
        let Some(asked) = self.calls.get_mut(call) else {
            return;
        };
        let until = *(asked.until).get_or_insert_with(|| match asked.kind {
            // A poll that waits for a notification waits as long as its connection does.
            Kind::Wait {
                when_ready: headrace_link::WhenReady::Notify,
                ..
            } => Timestamp(u64::MAX),
            _ => Timestamp(now.0.saturating_add(limit)),
        });
        self.calls.put(call, CallState::Parked { until });
        self.lanes.entry(namespace).or_default().park(call);
        self.parked.insert(namespace);
        if self.is_stopping {
            self.expire(Timestamp(u64::MAX));
        }
    }

    /// Time that a call parked now may wait. If the node has been unreachable for long, the wait is shorter than after
    /// a recent loss, so that clients with a shorter timeout than `links.unsent_timeout` get an answer as well.
    fn limit_of_wait(&self, now: Timestamp, namespace: Namespace) -> u64 {
        let limit = self.config.links.unsent_timeout_micros;
        let way = self.peer_of(&self.reviewed, namespace);
        let link = way.and_then(|peer| self.by_peer.get(&peer));
        match link.filter(|link| link.failures > 0) {
            Some(lost) => {
                let waited = now.0.saturating_sub(lost.lost_at.0);
                let left = limit.saturating_sub(waited);
                left.max(limit / RETRY_PART)
            }
            None => limit,
        }
    }

    /// Send a call on an open link.
    fn send(&mut self, moment: Moment<'_>, call: RequestId, peer: Peer) {
        let Some(asked) = self.calls.get_mut(call) else {
            return;
        };
        let Some(link) = self.by_peer.get_mut(&peer) else {
            return;
        };
        let position = link.queue(moment, &asked.frame);
        if asked.is_answered_soon() {
            asked.is_answer_expected = true;
            link.count_expected_answer(moment.now);
        }
        if asked.keeps_order() {
            let lane = self.lanes.entry(asked.namespace).or_default();
            lane.at = Some(peer);
            lane.in_flight += 1;
        }
        self.calls.put(call, CallState::Sent { to: peer, position });
        self.touch(peer);
    }

    /// Remove a call from its link: it was answered, or is to be sent again.
    pub(super) fn leave_link(&mut self, call: RequestId) {
        let Some(asked) = self.calls.get_mut(call) else {
            return;
        };
        let CallState::Sent { to, .. } = asked.state else {
            return;
        };
        if core::mem::take(&mut asked.is_answer_expected)
            && let Some(link) = self.by_peer.get_mut(&to)
        {
            link.uncount_expected_answer();
        }
        if asked.keeps_order()
            && let Some(lane) = self.lanes.get_mut(&asked.namespace)
        {
            lane.in_flight -= 1;
        }
    }

    /// End a call, with or without an answer.
    pub(super) fn end(&mut self, call: RequestId) -> Option<PendingCall> {
        self.leave_link(call);
        let asked = self.calls.remove(call)?;
        let released = self.budgets.end(asked.charge);
        (self.events)
            .extend((released.into_iter()).map(|connection| LinkEvent::Room { connection }));
        Some(asked)
    }

    /// Drop a cancelled call that was not sent. Its lane skips it when its turn comes.
    pub(super) fn drop_call(&mut self, call: RequestId) {
        self.end(call);
    }

    /// End a call with this refusal.
    pub(super) fn refuse(&mut self, call: RequestId, refusal: Refusal) {
        if let Some(asked) = self.end(call) {
            self.events.push(LinkEvent::Answer {
                answer: PartitionAnswer {
                    origin: asked.origin,
                    namespace: asked.namespace,
                    result: Err(refusal),
                },
                has_waited: asked.until.is_some(),
            });
        }
    }

    /// Resume calls that wait until everything in flight of a partition is answered, if that is so.
    pub(super) fn settle(
        &mut self,
        moment: Moment<'_>,
        namespace: Namespace,
        effects: &mut Vec<Effect>,
    ) {
        let Some(lane) = self.lanes.get_mut(&namespace) else {
            return;
        };
        lane.retries = 0;
        if lane.in_flight == 0 {
            self.pump(moment, namespace, effects);
        }
    }

    /// Process a node's reply that the partition of a call is not there and that nothing was executed.
    pub(super) fn not_here(
        &mut self,
        moment: Moment<'_>,
        from: Peer,
        call: RequestId,
        version: u64,
        effects: &mut Vec<Effect>,
    ) {
        if !self.is_with(from, call) {
            return;
        }
        let Some(asked) = self.calls.get(call) else {
            return;
        };
        let namespace = asked.namespace;
        self.leave_link(call);
        let jitter = self.random.u64(0..PAUSE_MICROS);
        let lane = self.lanes.entry(namespace).or_default();
        if let Some(retry) = &mut lane.retry {
            retry.version = retry.version.max(version);
        } else {
            let pause = PAUSE_MICROS << lane.retries.min(PAUSE_DOUBLINGS_MAX);
            lane.retries += 1;
            lane.retry = Some(Retry {
                from,
                version,
                again_at: Timestamp(moment.now.0 + pause + jitter),
            });
        }
        self.park_again(moment.now, call);
        self.pump(moment, namespace, effects);
    }

    /// Send parked calls of every lane as far as possible.
    pub(super) fn pump_all(&mut self, moment: Moment<'_>, effects: &mut Vec<Effect>) {
        let parked: Vec<Namespace> = self.parked.iter().copied().collect();
        for namespace in parked {
            self.pump(moment, namespace, effects);
        }
    }

    /// Send parked calls of a lane as far as possible.
    pub(super) fn pump(
        &mut self,
        moment: Moment<'_>,
        namespace: Namespace,
        effects: &mut Vec<Effect>,
    ) {
        let way = self.peer_of(moment.catalog, namespace);
        let incarnation =
            super::asking::identity(moment.catalog, namespace).map(|place| place.incarnation);
        while let Some(lane) = self.lanes.get_mut(&namespace)
            && let Some(call) = lane.queue.front().copied()
        {
            let Some(asked) = self.calls.get(call) else {
                lane.queue.pop_front();
                continue;
            };
            if incarnation != Some(asked.incarnation) {
                lane.queue.pop_front();
                self.refuse(call, Refusal::NotFound);
                continue;
            }
            let is_clear = lane.is_clear(moment, way);
            let Some(peer) = way.filter(|peer| is_clear && lane.leads_to(*peer)) else {
                break;
            };
            if !self.ensure_open(moment, peer, effects) {
                break;
            }
            if let Some(lane) = self.lanes.get_mut(&namespace) {
                lane.queue.pop_front();
            }
            self.send(moment, call, peer);
        }
        self.tidy(namespace);
    }

    /// Remove a lane without calls.
    fn tidy(&mut self, namespace: Namespace) {
        let Some(lane) = self.lanes.get(&namespace) else {
            return;
        };
        if lane.queue.is_empty() {
            self.parked.remove(&namespace);
            if lane.in_flight == 0 {
                self.lanes.remove(&namespace);
            }
        }
    }

    /// Refuse calls whose deadline has passed, and all later calls of the same connection: if the node came back a
    /// moment later, these would be executed before a retry of the refused call.
    pub(super) fn expire(&mut self, now: Timestamp) {
        let mut expired = Vec::new();
        for namespace in self.parked.clone() {
            let Some(lane) = self.lanes.get_mut(&namespace) else {
                continue;
            };
            let calls = &self.calls;
            let mut refused = BTreeSet::new();
            lane.queue.retain(|call| {
                let Some(asked) = calls.get(*call) else {
                    return false;
                };
                let connection = asked.origin.connection;
                let is_over = asked.until.is_some_and(|until| until <= now)
                    || asked.keeps_order() && refused.contains(&connection);
                if is_over && asked.keeps_order() {
                    refused.insert(connection);
                }
                expired.extend(is_over.then_some(*call));
                !is_over
            });
            self.tidy(namespace);
        }
        for call in expired {
            self.refuse(call, Refusal::Unavailable);
        }
    }
}
