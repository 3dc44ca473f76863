//! Watches begin, and notify.

use std::sync::Arc;

use headrace_catalog::Catalog;
use headrace_link::WatchedState;
use headrace_model::{Namespace, Timestamp};
use headrace_partition::Partition;

use super::{
    HostingState, Partitions,
    watchers::{NotificationTarget, Watcher},
};
use crate::api::Effect;

fn view(partition: &Partition, wants_openings: bool) -> WatchedState {
    let life = partition.generation();
    let mut view = WatchedState {
        incarnation: life.incarnation,
        purge_epoch: life.purge_epoch,
        first: partition.first_offset(),
        end: partition.visible_end(),
        ..WatchedState::default()
    };
    let openings = partition.openings();
    if wants_openings && let Some(last) = openings.last() {
        view.epoch = last.epoch;
        view.openings = Arc::clone(openings);
    }
    view
}

impl Partitions {
    /// Watch a partition for changes relative to the view last seen.
    pub(crate) fn watch(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        watcher: Watcher,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if self.ensure(namespace, catalog, now, effects).is_err() {
            // Watchers see in the catalog that the partition is gone.
            return;
        }
        let watchers = self.watchers.at.entry(namespace).or_default();
        watchers.retain(|other| other.target != watcher.target);
        watchers.push(watcher);
        self.notify_watchers(namespace);
    }

    /// Cancel a watch.
    pub(crate) fn unwatch(&mut self, namespace: Namespace, whom: NotificationTarget) {
        if let Some(watchers) = self.watchers.at.get_mut(&namespace) {
            watchers.retain(|watcher| watcher.target != whom);
            if watchers.is_empty() {
                self.watchers.forget(namespace);
            }
        }
    }

    /// Take the pending notifications with their receivers.
    pub(crate) fn take_view_changes(
        &mut self,
    ) -> Vec<(NotificationTarget, Namespace, Option<WatchedState>)> {
        core::mem::take(&mut self.watchers.seen)
    }

    /// Notify watchers whose view of a changed partition is outdated.
    pub(super) fn notify_watchers(&mut self, namespace: Namespace) {
        let Some(watchers) = self.watchers.at.get_mut(&namespace) else {
            return;
        };
        let Some(HostingState::Open(partition)) =
            self.hosted.get(&namespace).map(|hosted| &hosted.state)
        else {
            return;
        };
        if !partition.is_open() {
            return;
        }
        let seen = &mut self.watchers.seen;
        watchers.retain(|watcher| {
            let view = view(partition, watcher.wants_openings);
            let known = watcher.seen.as_ref();
            let is_news = known.is_none_or(|known| !view.is_unchanged(known));
            if is_news {
                seen.push((watcher.target, namespace, Some(view)));
            }
            !is_news
        });
        if watchers.is_empty() {
            self.watchers.forget(namespace);
        }
    }
}
