//! Shards that want to know when something happens to partitions of this one (GW-7).
//!
//! A shard asks with what it has seen, and is told once when that is not so any more. Until it asks again it is told
//! nothing: however much is appended, one piece of mail per shard and partition is on its way.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_catalog::Catalog;
use headrace_model::{Namespace, ShardId, Timestamp};
use headrace_partition::Partition;

use super::{Life, Partitions};
use crate::api::{Effect, View};

/// A shard that is to be told.
struct Watcher {
    shard: ShardId,
    seen: Option<View>,
}

/// Everybody who is to be told.
#[derive(Default)]
pub(super) struct Watchers {
    at: HashMap<Namespace, Vec<Watcher>, FixedState>,
    /// What there is to tell, since the last time somebody asked.
    seen: Vec<(ShardId, Namespace, View)>,
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
    /// Tell `shard` when something is not as it has seen it.
    pub(crate) fn watch(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        (shard, seen): (ShardId, Option<View>),
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if !self.ensure(namespace, catalog, now, effects) {
            // The catalogue says so to whoever watches it.
            return;
        }
        let watchers = self.watchers.at.entry(namespace).or_default();
        watchers.retain(|watcher| watcher.shard != shard);
        watchers.push(Watcher { shard, seen });
        self.tell_watchers(namespace);
    }

    /// `shard` is not to be told any more.
    pub(crate) fn unwatch(&mut self, namespace: Namespace, shard: ShardId) {
        if let Some(watchers) = self.watchers.at.get_mut(&namespace) {
            watchers.retain(|watcher| watcher.shard != shard);
            if watchers.is_empty() {
                self.watchers.forget(namespace);
            }
        }
    }

    /// What there is to tell since the last call, and to whom.
    pub(crate) fn take_seen(&mut self) -> Vec<(ShardId, Namespace, View)> {
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
                seen.push((watcher.shard, namespace, view));
            }
            !is_news
        });
        if watchers.is_empty() {
            self.watchers.forget(namespace);
        }
    }
}
