//! What becomes of what was asked when a link is lost.
//!
//! What the link was not given yet, and what leaves no trace, is asked again. Of the rest nobody knows: the connections
//! that have asked for it end, as they would have with the death of a server that has the partitions itself.

use std::collections::BTreeSet;

use super::{Links, Moment, Peer, Told, calls::Place};
use crate::api::{ConnectionKey, Effect};

impl Links {
    /// A link is no more, without a word.
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
        let handed = link.handed;
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
            effects.push(Effect::Report { message });
        }
    }

    /// A node says goodbye: it has answered everything that it has done, and has done nothing else.
    pub(super) fn leave(&mut self, moment: Moment<'_>, peer: Peer, effects: &mut Vec<Effect>) {
        self.part(moment, peer, 0, effects);
    }

    /// Close a link. Of what it was given before the place `done_before` it is not known whether it was done.
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
            let Place::Sent { position, .. } = asked.place else {
                continue;
            };
            if position < done_before {
                if !asked.is_harmless {
                    ended.insert(asked.origin.connection);
                }
                // It has had its time with the node.
                asked.until = None;
            }
            self.park_again(moment.now, call);
        }
        let until = self.rest_until(moment.now, failures);
        if let Some(link) = self.by_peer.get_mut(&peer) {
            link.rest(until);
        }
        self.unarm_all(peer);
        self.stop_gathering_from(peer);
        for connection in ended {
            // What of it was not sent goes with it, so that nothing of it is done behind what may not have been done.
            self.forget(connection);
            self.told.push(Told::Unknown { connection });
        }
    }
}
