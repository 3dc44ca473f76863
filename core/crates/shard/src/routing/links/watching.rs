//! Watches of partitions on other nodes.
//!
//! A watch contains the view last seen, so it can be repeated at any time and at any node, which reports changes that
//! happened meanwhile.

use headrace_link::{ToNode, WatchedState};
use headrace_model::{Namespace, Timestamp};

use super::{LinkEvent, Links, asking::identity, watch::Watch};
use crate::{api::Effect, calls::Peer, moment::Moment};

/// Pause before a watch is repeated at a node that refused it.
const PAUSE_MICROS: u64 = 200_000;

impl Links {
    /// Watch a partition for changes relative to the view last seen.
    pub(super) fn watch(
        &mut self,
        moment: Moment<'_>,
        namespace: Namespace,
        seen: Option<WatchedState>,
        effects: &mut Vec<Effect>,
    ) {
        let watch = Watch {
            seen,
            at: None,
            refused: None,
        };
        self.watches.insert(namespace, watch);
        self.unarmed.insert(namespace);
        self.arm(moment, namespace, effects);
    }

    /// Cancel a watch.
    pub(super) fn unwatch(&mut self, moment: Moment<'_>, namespace: Namespace) {
        self.unarmed.remove(&namespace);
        if let Some(watch) = self.watches.remove(&namespace) {
            self.disarm(moment, namespace, watch.at);
        }
    }

    fn disarm(&mut self, moment: Moment<'_>, namespace: Namespace, at: Option<Peer>) {
        if let Some(peer) = at
            && let Some(link) = self.by_peer.get_mut(&peer)
        {
            link.queue(moment, &ToNode::Unwatch { namespace }.encode());
            self.touch(peer);
        }
    }

    fn arm(&mut self, moment: Moment<'_>, namespace: Namespace, effects: &mut Vec<Effect>) {
        // Watchers see in the catalog that a partition is gone.
        let (Some(way), Some(place)) = (
            self.peer_of(moment.catalog, namespace),
            identity(moment.catalog, namespace),
        ) else {
            return;
        };
        let Some(watch) = self.watches.get(&namespace) else {
            return;
        };
        if let Some((version, again_at)) = watch.refused
            && (moment.catalog.version() < version || moment.now < again_at)
        {
            return;
        }
        let seen = watch.seen.clone();
        if !self.ensure_open(moment, way, effects) {
            return;
        }
        if let Some(link) = self.by_peer.get_mut(&way) {
            link.queue(
                moment,
                &ToNode::Watch {
                    place,
                    last_state: seen,
                    wants_openings: true,
                }
                .encode(),
            );
            self.touch(way);
        }
        if let Some(watch) = self.watches.get_mut(&namespace) {
            watch.at = Some(way);
            watch.refused = None;
        }
        self.unarmed.remove(&namespace);
    }

    /// Send the watches that are not registered at a node.
    pub(super) fn arm_watches(&mut self, moment: Moment<'_>, effects: &mut Vec<Effect>) {
        let unarmed: Vec<Namespace> = self.unarmed.iter().copied().collect();
        for namespace in unarmed {
            self.arm(moment, namespace, effects);
        }
    }

    /// Apply a new catalog: move watches of partitions that are now elsewhere.
    pub(super) fn follow_watches(&mut self, moment: Moment<'_>, effects: &mut Vec<Effect>) {
        let moved: Vec<(Namespace, Option<Peer>)> = (self.watches.iter())
            .filter(|(namespace, watch)| {
                watch.at.is_some() && watch.at != self.peer_of(moment.catalog, **namespace)
            })
            .map(|(namespace, watch)| (*namespace, watch.at))
            .collect();
        for (namespace, at) in moved {
            self.disarm(moment, namespace, at);
            self.unarm(namespace);
        }
        self.arm_watches(moment, effects);
    }

    fn unarm(&mut self, namespace: Namespace) {
        if let Some(watch) = self.watches.get_mut(&namespace) {
            watch.at = None;
            self.unarmed.insert(namespace);
        }
    }

    /// Process a node's notification.
    pub(super) fn seen(&mut self, from: Peer, namespace: Namespace, view: WatchedState) {
        let watch = self.watches.get(&namespace);
        if watch.is_some_and(|watch| watch.at == Some(from)) {
            self.watches.remove(&namespace);
            self.events.push(LinkEvent::Seen { namespace, view });
        }
    }

    /// Process a node's reply that it does not host the partition.
    pub(super) fn not_watched(
        &mut self,
        moment: Moment<'_>,
        from: Peer,
        namespace: Namespace,
        version: u64,
    ) {
        if let Some(watch) = self.watches.get_mut(&namespace)
            && watch.at == Some(from)
        {
            let again_at = Timestamp(moment.now.0 + PAUSE_MICROS);
            watch.refused = Some((version, again_at));
            self.unarm(namespace);
        }
    }

    /// Mark the watches of a lost link as not registered.
    pub(super) fn unarm_all(&mut self, peer: Peer) {
        let lost: Vec<Namespace> = (self.watches.iter())
            .filter(|(_, watch)| watch.at == Some(peer))
            .map(|(namespace, _)| *namespace)
            .collect();
        for namespace in lost {
            self.unarm(namespace);
        }
    }
}
