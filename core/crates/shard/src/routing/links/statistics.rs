//! Statistics of partitions on other nodes, gathered on demand.

use std::collections::BTreeSet;

use headrace_link::{RequestId, Scope, StatisticsSnapshot, ToNode};
use headrace_model::{ShardId, Timestamp};

use super::{LinkEvent, Links, gatherings::Gathering, link::State};
use crate::{
    api::Effect,
    calls::{Origin, Peer},
    moment::Moment,
};

/// Time after which a node without an answer is left out: its last known statistics are used.
const STATISTICS_TIMEOUT_MICROS: u64 = 1_000_000;

impl Links {
    /// Update the statistics of these partitions, as far as their nodes can be asked.
    pub(crate) fn gather(
        &mut self,
        moment: Moment<'_>,
        origin: Origin,
        scope: Scope,
        request: (u32, Box<[u8]>),
        effects: &mut Vec<Effect>,
    ) {
        let call = self.calls.next();
        let mut unasked = self.holders(moment, scope);
        unasked.retain(|peer| self.may_be_reached(moment.now, *peer));
        let gathering = Gathering {
            origin,
            request,
            scope,
            until: Timestamp(moment.now.0 + STATISTICS_TIMEOUT_MICROS),
            unasked,
            asked: BTreeSet::new(),
        };
        self.gatherings.under_way.insert(call, gathering);
        self.request_statistics(moment, effects);
        self.end_gatherings(moment.now);
    }

    /// Return one shard of each node that hosts one of these partitions. Any shard knows the statistics of the whole
    /// node.
    fn holders(&self, moment: Moment<'_>, scope: Scope) -> BTreeSet<Peer> {
        let catalog = moment.catalog;
        let in_scope = (catalog.partitions())
            .map(|(_, partition)| partition.namespace)
            .filter(|namespace| scope.covers(*namespace));
        let nodes = in_scope.filter_map(|namespace| catalog.leader(namespace));
        nodes
            .map(|node| Peer {
                node: node.id,
                shard: ShardId(
                    self.config.shard.0
                        % u16::try_from(node.shards).map_or(u16::MAX, |shards| shards.max(1)),
                ),
            })
            .collect()
    }

    /// Return whether a node may answer soon. Requests of a connection wait for the statistics that another of its
    /// requests needs, so nodes that are known to be unreachable are not waited for, except by the request that tries to
    /// reach them again.
    fn may_be_reached(&self, now: Timestamp, peer: Peer) -> bool {
        let link = self.by_peer.get(&peer).filter(|link| link.failures > 0);
        link.is_none_or(|link| match link.state {
            State::Open { .. } => true,
            State::Resting { until } => until <= now,
            State::Connecting { .. } | State::Opening { .. } => false,
        })
    }

    /// Ask the nodes that can be reached now.
    pub(super) fn request_statistics(&mut self, moment: Moment<'_>, effects: &mut Vec<Effect>) {
        let wanted: Vec<(RequestId, Scope, Peer)> = (self.gatherings.under_way.iter())
            .flat_map(|(call, gathering)| {
                (gathering.unasked.iter()).map(|peer| (*call, gathering.scope, *peer))
            })
            .collect();
        for (call, scope, peer) in wanted {
            if !self.ensure_open(moment, peer, effects) {
                continue;
            }
            if let Some(link) = self.by_peer.get_mut(&peer) {
                link.queue(moment, &ToNode::Statistics { call, scope }.encode());
                self.touch(peer);
            }
            if let Some(gathering) = self.gatherings.under_way.get_mut(&call) {
                gathering.unasked.remove(&peer);
                gathering.asked.insert(peer);
            }
        }
    }

    /// Process the statistics from a node.
    pub(super) fn apply_statistics(
        &mut self,
        moment: Moment<'_>,
        from: Peer,
        call: RequestId,
        statistics: &[StatisticsSnapshot],
    ) {
        if let Some(link) = self.by_peer.get(&from) {
            self.contacts.note((from.node, link.incarnation), true);
        }
        for statistics in statistics {
            let namespace = statistics.namespace;
            let topic = (moment.catalog.stream_by_id(namespace.stream()))
                .and_then(|stream| stream.topic_by_id(namespace.topic()))
                // Statistics from before a purge are ignored.
                .filter(|topic| topic.purge_epoch <= statistics.purge_epoch);
            let partition = topic.and_then(|topic| topic.partition(namespace.partition()));
            if let Some(partition) =
                partition.filter(|partition| partition.incarnation == statistics.incarnation)
            {
                statistics.store_to(&partition.statistics);
            }
        }
        if let Some(gathering) = self.gatherings.under_way.get_mut(&call) {
            gathering.asked.remove(&from);
        }
        self.end_gatherings(moment.now);
    }

    /// Stop waiting for the answers of a node whose link is closed.
    pub(super) fn stop_gathering_from(&mut self, peer: Peer) {
        for gathering in self.gatherings.under_way.values_mut() {
            gathering.asked.remove(&peer);
        }
    }

    /// Stop waiting for a node that cannot be reached.
    pub(super) fn stop_gathering_without(&mut self, peer: Peer, now: Timestamp) {
        for gathering in self.gatherings.under_way.values_mut() {
            gathering.unasked.remove(&peer);
        }
        self.end_gatherings(now);
    }

    /// Complete requests that have all statistics, or whose timeout has passed.
    pub(super) fn end_gatherings(&mut self, now: Timestamp) {
        let is_over = |gathering: &Gathering| {
            gathering.until <= now || (gathering.unasked.is_empty() && gathering.asked.is_empty())
        };
        let under_way = core::mem::take(&mut self.gatherings.under_way);
        for (call, gathering) in under_way {
            if !is_over(&gathering) {
                self.gatherings.under_way.insert(call, gathering);
                continue;
            }
            self.events.push(LinkEvent::StatisticsGathered {
                origin: gathering.origin,
                request: gathering.request,
            });
        }
    }
}
