//! Calls of a lost link.
//!
//! Calls that were not handed to the host, and those that change nothing, are sent again. The outcome of all others is
//! unknown: their connections are closed, as with the crash of a server that hosts the partitions itself.

use std::collections::BTreeSet;

use headrace_model::Level;

use super::{LinkEvent, Links, calls::CallState};
use crate::{
    api::Effect,
    calls::{ConnectionKey, Peer},
    moment::Moment,
};

impl Links {
    /// Process the loss of a link that was not drained.
    pub(super) fn lose(
        &mut self,
        moment: Moment<'_>,
        peer: Peer,
        reason: &str,
        effects: &mut Vec<Effect>,
    ) {
        let Some(link) = self.by_peer.get(&peer) else {
            return;
        };
        let handed = link.handed_frames;
        self.part(moment, peer, handed, effects);
        let Some(link) = self.by_peer.get_mut(&peer) else {
            return;
        };
        if link.failures == 0 {
            link.lost_at = moment.now;
        }
        link.failures = link.failures.saturating_add(1);
        if !self.is_stopping && !core::mem::replace(&mut link.is_reported, true) {
            let address = &link.address;
            let message = format!("node {} at {address} is not reached: {reason}", peer.node);
            effects.push(Effect::Report {
                level: Level::Error,
                message,
            });
        }
        self.stop_gathering_without(peer, moment.now);
    }

    /// Process the end of a drained link: the node has answered everything that it executed.
    pub(super) fn leave(&mut self, moment: Moment<'_>, peer: Peer, effects: &mut Vec<Effect>) {
        self.part(moment, peer, 0, effects);
    }

    /// Close a link. The outcome of frames before the position `done_before` is unknown.
    fn part(
        &mut self,
        moment: Moment<'_>,
        peer: Peer,
        done_before: u64,
        effects: &mut Vec<Effect>,
    ) {
        let Some(link) = self.by_peer.get_mut(&peer) else {
            return;
        };
        let failures = link.failures;
        if let Some(connection) = link.connection() {
            self.connected.remove(&connection);
            effects.push(Effect::Close { connection });
        }
        let mut ended: BTreeSet<ConnectionKey> = BTreeSet::new();
        let calls = self.calls.sent_to(peer);
        for call in calls {
            self.leave_link(call);
            let Some(asked) = self.calls.get_mut(call) else {
                continue;
            };
            let CallState::Sent { position, .. } = asked.state else {
                continue;
            };
            if position < done_before {
                if !asked.is_idempotent {
                    ended.insert(asked.origin.connection);
                }
                // The deadline for waiting starts anew: the node had accepted the call.
                asked.until = None;
            }
            self.park_again(moment.now, call);
        }
        let until = self.rest_until(moment.now, failures);
        if let Some(link) = self.by_peer.get_mut(&peer) {
            link.reset(until);
            self.contacts.note((peer.node, link.incarnation), false);
        }
        self.unarm_all(peer);
        self.stop_gathering_from(peer);
        for connection in ended {
            // Unsent calls of the connection are dropped as well, so that none is executed after one that may not have
            // been.
            self.forget(connection);
            self.events.push(LinkEvent::OutcomeUnknown { connection });
        }
    }
}
