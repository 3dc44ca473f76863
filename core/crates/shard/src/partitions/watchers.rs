//! Shards and gateways that want to know when something happens to partitions of this one (GW-7).
//!
//! Somebody asks with what it has seen, and is told once when that is not so any more. Until it asks again it is told
//! nothing: however much is appended, one piece of mail for each of them and each partition is on its way.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_catalog::Catalog;
use headrace_link::View;
use headrace_model::{Namespace, ShardId, Timestamp};
use headrace_partition::Partition;

use super::{Life, Partitions};
use crate::api::{ConnectionKey, Effect};

/// Who is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whom {
    /// A shard of this process.
    Shard(ShardId),
    /// The gateway at the other end of a connection of this shard.
    Link(ConnectionKey),
}

struct Watcher {
    whom: Whom,
    seen: Option<View>,
}

/// Everybody who is to be told.
#[derive(Default)]
pub(super) struct Watchers {
    at: HashMap<Namespace, Vec<Watcher>, FixedState>,
    /// What there is to tell, since the last time somebody asked; `None`: the partition is somewhere else now.
    seen: Vec<(Whom, Namespace, Option<View>)>,
}

impl Watchers {
    pub(super) fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    pub(super) fn has_seen(&self) -> bool {
        !self.seen.is_empty()
    }

    pub(super) fn forget(&mut self, namespace: Namespace) {
        self.at.remove(&namespace);
    }

    /// The partition is somewhere else now: so is what there is to tell of it.
    pub(super) fn lose(&mut self, namespace: Namespace) {
        let watchers = self.at.remove(&namespace).into_iter().flatten();
        let lost = watchers.map(|watcher| (watcher.whom, namespace, None));
        self.seen.extend(lost);
    }
}

fn view(partition: &Partition) -> View {
    let life = partition.life();
    View {
        incarnation: life.incarnation,
        purge_epoch: life.purge_epoch,
        first: partition.first_offset(),
        end: partition.visible_end(),
    }
}

impl Partitions {
    /// Tell somebody when something is not as they have seen it.
    pub(crate) fn watch(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        (whom, seen): (Whom, Option<View>),
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if self.ensure(namespace, catalog, now, effects).is_err() {
            // The catalogue says so to whoever watches it.
            return;
        }
        let watchers = self.watchers.at.entry(namespace).or_default();
        watchers.retain(|watcher| watcher.whom != whom);
        watchers.push(Watcher { whom, seen });
        self.tell_watchers(namespace);
    }

    /// They are not to be told any more.
    pub(crate) fn unwatch(&mut self, namespace: Namespace, whom: Whom) {
        if let Some(watchers) = self.watchers.at.get_mut(&namespace) {
            watchers.retain(|watcher| watcher.whom != whom);
            if watchers.is_empty() {
                self.watchers.forget(namespace);
            }
        }
    }

    /// What there is to tell since the last call, and to whom.
    pub(crate) fn take_seen(&mut self) -> Vec<(Whom, Namespace, Option<View>)> {
        core::mem::take(&mut self.watchers.seen)
    }

    /// After something happened to a partition: whoever has not seen it is told.
    pub(super) fn tell_watchers(&mut self, namespace: Namespace) {
        let Some(watchers) = self.watchers.at.get_mut(&namespace) else {
            return;
        };
        let Some(Life::Open(partition)) = self.hosted.get(&namespace).map(|hosted| &hosted.life)
        else {
            return;
        };
        if !partition.is_open() {
            return;
        }
        let view = view(partition);
        let seen = &mut self.watchers.seen;
        watchers.retain(|watcher| {
            let is_news = watcher.seen != Some(view);
            if is_news {
                seen.push((watcher.whom, namespace, Some(view)));
            }
            !is_news
        });
        if watchers.is_empty() {
            self.watchers.forget(namespace);
        }
    }
}
