//! Connections of this shard that watch partitions and get notifications of changes (GW-7).
//!
//! Nothing is queued: the newest view of each partition is kept once for all connections, and each connection has a
//! list of partitions whose newest view it has not been sent. A partition is watched again only after some connection
//! was sent the view, so notifications are never more frequent than a client can read them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use foldhash::fast::FixedState;
use hashbrown::{HashMap, hash_map::Entry};
use headrace_catalog::{Action, Catalog, Changes, authorise};
use headrace_link::WatchedState;
use headrace_model::{Namespace, UserId};
use headrace_wire::{
    Status, WatchAction,
    response::{WatchedLog, WatchedPartition, encode_list},
};

use crate::{
    api::Effect,
    calls::{ConnectionKey, Mail},
    routing::{costs::Costs, mail::Ways},
    sessions::{
        Sessions,
        connection::{Requester, payload_response, status_response},
    },
};

/// Maximum number of partitions in one frame.
const FRAME_PARTITIONS_MAX: usize = 1024;

/// State of a partition that at least one connection watches.
#[derive(Default)]
struct Seen {
    view: Option<WatchedState>,
    /// True if the partition's shard will notify when the view changes. If false, no watcher has been sent the view
    /// yet.
    is_armed: bool,
    watchers: Vec<ConnectionKey>,
}

/// Watches of one connection.
#[derive(Default)]
struct ConnectionWatches {
    partitions: HashMap<Namespace, PartitionWatch, FixedState>,
    /// Partitions whose newest view was not sent, oldest first.
    due: VecDeque<Namespace>,
    /// Partitions no longer watched, which the connection has yet to be notified of.
    gone: BTreeMap<Namespace, Status>,
    user: UserId,
    /// Notifications name the openings of logs.
    names_openings: bool,
}

struct PartitionWatch {
    incarnation: u64,
    is_due: bool,
}

/// All watches of a shard.
#[derive(Default)]
pub(crate) struct Watches {
    seen: HashMap<Namespace, Seen, FixedState>,
    by_connection: HashMap<ConnectionKey, ConnectionWatches, FixedState>,
    costs: Costs,
}

impl Watches {
    /// Number of watched partitions, each counted once for every watching connection.
    pub(crate) fn cost(&self) -> usize {
        self.costs.all()
    }

    /// Number of partitions that connections of one user watch.
    pub(crate) fn cost_of(&self, user: UserId) -> usize {
        self.costs.of(user)
    }

    /// Note what the notifications of a connection name from now on.
    fn name_openings(&mut self, key: ConnectionKey, user: UserId, names_openings: bool) {
        let fresh = || ConnectionWatches {
            user,
            ..ConnectionWatches::default()
        };
        let watching = self.by_connection.entry(key).or_insert_with(fresh);
        watching.names_openings = names_openings;
    }

    /// Mark the newest view of a partition as due for a connection.
    fn owe(&mut self, key: ConnectionKey, namespace: Namespace) {
        if let Some(watching) = self.by_connection.get_mut(&key)
            && let Some(watched) = watching.partitions.get_mut(&namespace)
            && !core::mem::replace(&mut watched.is_due, true)
        {
            watching.due.push_back(namespace);
        }
    }

    /// Add a watch. Returns true if nothing is known of the partition yet.
    fn insert(
        &mut self,
        key: ConnectionKey,
        user: UserId,
        namespace: Namespace,
        incarnation: u64,
    ) -> bool {
        let fresh = || ConnectionWatches {
            user,
            ..ConnectionWatches::default()
        };
        let watching = self.by_connection.entry(key).or_insert_with(fresh);
        let seen = self.seen.entry(namespace).or_default();
        match watching.partitions.entry(namespace) {
            Entry::Occupied(mut known) => known.get_mut().incarnation = incarnation,
            Entry::Vacant(free) => {
                free.insert(PartitionWatch {
                    incarnation,
                    is_due: false,
                });
                seen.watchers.push(key);
                self.costs.add(watching.user, 1);
            }
        }
        watching.gone.remove(&namespace);
        let is_new = seen.view.is_none() && !seen.is_armed;
        if seen.view.is_some() {
            self.owe(key, namespace);
        }
        is_new
    }

    /// Remove watches of a connection. Returns the partitions without any watcher left whose shards would still notify.
    fn remove(
        &mut self,
        key: ConnectionKey,
        namespaces: impl IntoIterator<Item = Namespace>,
    ) -> Vec<Namespace> {
        let mut forgotten = Vec::new();
        let Some(watching) = self.by_connection.get_mut(&key) else {
            return forgotten;
        };
        for namespace in namespaces {
            if watching.partitions.remove(&namespace).is_none() {
                continue;
            }
            self.costs.remove(watching.user, 1);
            if let Entry::Occupied(mut seen) = self.seen.entry(namespace) {
                seen.get_mut().watchers.retain(|watcher| *watcher != key);
                if seen.get().watchers.is_empty() && seen.remove().is_armed {
                    forgotten.push(namespace);
                }
            }
        }
        let partitions = &watching.partitions;
        watching.due.retain(|due| partitions.contains_key(due));
        forgotten
    }

    /// Return whether watching has ended: the connection watches nothing and was notified of that. It may then do
    /// something else again.
    fn is_over(&mut self, key: ConnectionKey) -> bool {
        let is_over = self
            .by_connection
            .get(&key)
            .is_none_or(|watching| watching.partitions.is_empty() && watching.gone.is_empty());
        if is_over {
            self.by_connection.remove(&key);
        }
        is_over
    }

    /// Take what is due for a connection, and the partitions to be watched for further changes.
    fn take_due(&mut self, key: ConnectionKey) -> (Due, Vec<Namespace>) {
        let mut due = Due::default();
        let mut unarmed = Vec::new();
        let Some(watching) = self.by_connection.get_mut(&key) else {
            return (due, unarmed);
        };
        due.names_openings = watching.names_openings;
        let entries = &mut due.entries;
        while entries.len() < FRAME_PARTITIONS_MAX
            && let Some((namespace, status)) = watching.gone.pop_first()
        {
            entries.push(entry(namespace, status, &WatchedState::default()));
        }
        while entries.len() < FRAME_PARTITIONS_MAX
            && let Some(namespace) = watching.due.pop_front()
        {
            let (Some(watched), Some(seen)) = (
                watching.partitions.get_mut(&namespace),
                self.seen.get(&namespace),
            ) else {
                continue;
            };
            watched.is_due = false;
            if !seen.is_armed {
                unarmed.push(namespace);
            }
            // A view of an earlier partition with this number does not apply to the current one.
            let view = seen.view.as_ref();
            if let Some(view) = view.filter(|view| view.incarnation == watched.incarnation) {
                entries.push(entry(namespace, Status::OK, view));
            }
        }
        (due, unarmed)
    }
}

/// The watches, with the ways to the watched partitions and the connections that watch.
pub(crate) struct Watching<'a> {
    pub(crate) watches: &'a mut Watches,
    pub(crate) ways: Ways<'a>,
    pub(crate) sessions: &'a mut Sessions,
}

/// Notifications that are due for a connection.
#[derive(Default)]
pub(crate) struct Due {
    entries: Vec<WatchedLog>,
    names_openings: bool,
}

impl Due {
    fn encode(&self, out: &mut Vec<u8>) {
        if self.names_openings {
            return encode_list(&self.entries, out);
        }
        let states: Vec<_> = self.entries.iter().map(|entry| entry.state).collect();
        encode_list(&states, out);
    }
}

fn entry(namespace: Namespace, status: Status, view: &WatchedState) -> WatchedLog {
    let state = WatchedPartition {
        status,
        stream_id: namespace.stream().0,
        topic_id: namespace.topic().0,
        partition_id: namespace.partition().0,
        incarnation: view.incarnation,
        purge_epoch: view.purge_epoch,
        first_offset: view.first.0,
        next_offset: view.end.0,
    };
    WatchedLog {
        state,
        openings: Arc::clone(&view.openings),
    }
}

/// Return the reason if a partition can no longer be watched.
fn refusal(
    catalog: &Catalog,
    user: UserId,
    namespace: Namespace,
    incarnation: u64,
) -> Option<Status> {
    let (stream, topic) = (namespace.stream(), namespace.topic());
    let Some(found) = catalog.stream_by_id(stream) else {
        return Some(Status::STREAM_ID_NOT_FOUND);
    };
    let Some(found) = found.topic_by_id(topic) else {
        return Some(Status::TOPIC_ID_NOT_FOUND);
    };
    let partition = found.partition(namespace.partition());
    if partition.is_none_or(|partition| partition.incarnation != incarnation) {
        return Some(Status::PARTITION_NOT_FOUND);
    }
    (!authorise(catalog, user, Action::Poll(stream, topic))).then_some(Status::UNAUTHORIZED)
}

impl Watching<'_> {
    /// Start or stop to watch partitions for a connection, which was admitted.
    pub(crate) fn watch(
        &mut self,
        requester: &mut Requester<'_>,
        action: WatchAction,
        partitions: &[(Namespace, u64)],
        effects: &mut Vec<Effect>,
    ) {
        let key = requester.key;
        match action {
            WatchAction::Add | WatchAction::AddNamingOpenings => {
                let user = requester.session.principal().unwrap_or_default();
                self.watches
                    .name_openings(key, user, action == WatchAction::AddNamingOpenings);
                for (namespace, incarnation) in partitions {
                    if self.watches.insert(key, user, *namespace, *incarnation) {
                        self.arm_watch(*namespace, effects);
                    }
                }
            }
            WatchAction::Remove => {
                let namespaces = partitions.iter().map(|(namespace, _)| *namespace);
                self.unwatch(key, namespaces, effects);
            }
        }
        requester.session.is_watching = !self.watches.is_over(key);
        requester.pipeline.respond(status_response(Status::OK));
    }

    fn unwatch(
        &mut self,
        key: ConnectionKey,
        namespaces: impl IntoIterator<Item = Namespace>,
        effects: &mut Vec<Effect>,
    ) {
        let shard = self.ways.moment.config.shard;
        for namespace in self.watches.remove(key, namespaces) {
            let owner = self.ways.owner(namespace);
            self.ways
                .carry(owner, Mail::Unwatch { namespace, shard }, effects);
        }
    }

    /// Ask the shard of a partition to notify when the known view is outdated.
    fn arm_watch(&mut self, namespace: Namespace, effects: &mut Vec<Effect>) {
        let Some(known) = self.watches.seen.get_mut(&namespace) else {
            return;
        };
        known.is_armed = true;
        let (seen, shard) = (known.view.clone(), self.ways.moment.config.shard);
        let owner = self.ways.owner(namespace);
        let mail = Mail::Watch {
            namespace,
            shard,
            seen,
        };
        self.ways.carry(owner, mail, effects);
    }

    /// Process a notification about a watched partition.
    pub(crate) fn watch_notified(&mut self, namespace: Namespace, view: WatchedState) {
        let Some(seen) = self.watches.seen.get_mut(&namespace) else {
            return;
        };
        seen.view = Some(view);
        seen.is_armed = false;
        for key in seen.watchers.clone() {
            self.watches.owe(key, namespace);
            self.sessions.touch(key);
        }
    }

    /// Take the notifications that are due for a connection, unless earlier ones are still being sent.
    pub(crate) fn take_due(
        &mut self,
        key: ConnectionKey,
        effects: &mut Vec<Effect>,
    ) -> Option<Due> {
        let connection = self.sessions.get_mut(key)?;
        if !connection.session.is_watching || connection.sending || connection.closing {
            return None;
        }
        let (due, unarmed) = self.watches.take_due(key);
        for namespace in unarmed {
            self.arm_watch(namespace, effects);
        }
        Some(due)
    }

    /// Send a connection these notifications.
    pub(crate) fn send(&mut self, key: ConnectionKey, due: &Due) {
        let is_watching = !self.watches.is_over(key);
        if let Some(connection) = self.sessions.get_mut(key) {
            connection.session.is_watching = is_watching;
            if !due.entries.is_empty() {
                let frame = payload_response(|out| due.encode(out));
                connection.pipeline.respond(frame);
            }
        }
    }

    /// Apply a new catalog: stop watching partitions that are gone, or that the user may no longer see.
    pub(crate) fn review_watches(&mut self, changes: &Changes, effects: &mut Vec<Effect>) {
        let keys: Vec<ConnectionKey> = self.watches.by_connection.keys().copied().collect();
        let (catalog, now) = (self.ways.moment.catalog, self.ways.moment.wall);
        for key in keys {
            let user = self
                .sessions
                .get_mut(key)
                .and_then(|connection| connection.session.login.as_ref())
                .map(|login| (login.user(), login.holds(catalog, now)));
            let is_all = user.is_none_or(|(user, _)| changes.has_user(user));
            let user = user.filter(|(_, holds)| *holds).map(|(user, _)| user);
            let Some(watching) = self.watches.by_connection.get_mut(&key) else {
                continue;
            };
            let touched = watching.partitions.iter().filter(|(namespace, _)| {
                is_all || changes.has_topic(namespace.stream(), namespace.topic())
            });
            let mut gone = Vec::new();
            for (namespace, watched) in touched {
                let status = match user {
                    Some(user) => refusal(catalog, user, *namespace, watched.incarnation),
                    None => Some(Status::UNAUTHENTICATED),
                };
                if let Some(status) = status {
                    gone.push(*namespace);
                    watching.gone.insert(*namespace, status);
                }
            }
            if !gone.is_empty() {
                self.unwatch(key, gone, effects);
                self.sessions.touch(key);
            }
        }
    }

    /// Remove all watches of a closed connection.
    pub(crate) fn forget_watches(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        if let Some(watching) = self.watches.by_connection.get(&key) {
            let namespaces: Vec<Namespace> = watching.partitions.keys().copied().collect();
            self.unwatch(key, namespaces, effects);
            self.watches.by_connection.remove(&key);
        }
    }
}
