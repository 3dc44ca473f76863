//! Registry of connected clients, for client listings.
//!
//! Accessed when a connection opens, logs in or out and closes, never on the data path, so one lock serves all shards.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use headrace_model::{ClientId, UserId};

use crate::{moment::Moment, sessions::arrival::Arrival};

/// A registered connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// Id of the client, unique among the live connections of this process; never 0.
    pub id: ClientId,
    /// Address, transport and framing of the connection.
    pub arrival: Arrival,
    /// User that is logged in.
    pub user: Option<UserId>,
}

impl Client {
    fn is_listed(&self) -> bool {
        !self.arrival.is_in_process()
    }
}

/// Places of connections at this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    /// Number for all users.
    pub(crate) of_all: usize,
    /// Number that the quota of one user allows.
    pub(crate) of_quota: usize,
}

impl Places {
    /// Number of connections that all shards may have, and that the quota of a user allows.
    pub(crate) fn of(moment: Moment<'_>, user: UserId) -> Self {
        let shards = usize::from(moment.config.shards.get());
        let allowed = (moment.catalog.user_by_id(user)).map_or(0, |user| user.quota.connections);
        Self {
            of_all: moment.config.connections_max.saturating_mul(shards),
            of_quota: match allowed {
                0 => usize::MAX,
                allowed => allowed as usize,
            },
        }
    }
}

#[derive(Debug, Default)]
struct Clients {
    by_id: BTreeMap<ClientId, Client>,
    /// Clients that are to be disconnected.
    unwanted: BTreeSet<ClientId>,
    last_id: u32,
    /// Number of connections of each user, without in-process ones.
    by_user: BTreeMap<UserId, usize>,
    /// Sum of these numbers.
    logged_in: usize,
}

impl Clients {
    fn count(&mut self, client: Client) {
        if let Some(user) = client.user.filter(|_| client.is_listed()) {
            *self.by_user.entry(user).or_default() += 1;
            self.logged_in += 1;
        }
    }

    fn uncount(&mut self, client: Client) {
        let Some(user) = client.user.filter(|_| client.is_listed()) else {
            return;
        };
        self.logged_in -= 1;
        if let Some(count) = self.by_user.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&user);
            }
        }
    }

    /// Return whether a user may have one more connection: half of the places that other users leave, or the first, and
    /// as many as its quota has.
    fn has_place_for(&self, user: UserId, places: Places) -> bool {
        let held = self.by_user.get(&user).copied().unwrap_or(0);
        let left = places.of_all.saturating_sub(self.logged_in - held);
        held == 0 || held < (left / 2).min(places.of_quota)
    }

    fn set_user(&mut self, id: ClientId, user: Option<UserId>) {
        let Some(client) = self.by_id.get_mut(&id) else {
            return;
        };
        let before = *client;
        client.user = user;
        let after = *client;
        self.uncount(before);
        self.count(after);
    }
}

/// Connections of all shards.
#[derive(Debug, Clone, Default)]
pub struct ClientRegistry {
    clients: Arc<Mutex<Clients>>,
    /// Counter that increases with every client to be disconnected.
    disconnections: Arc<AtomicU64>,
}

impl ClientRegistry {
    fn lock(&self) -> MutexGuard<'_, Clients> {
        // Every change is one insert or remove, so a shard that panicked with the lock held left the map consistent.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Register a new connection.
    pub fn connected(&self, arrival: Arrival) -> ClientId {
        let mut clients = self.lock();
        loop {
            clients.last_id = clients.last_id.checked_add(1).unwrap_or(1);
            let id = ClientId(clients.last_id);
            if let std::collections::btree_map::Entry::Vacant(entry) = clients.by_id.entry(id) {
                let client = Client {
                    id,
                    arrival,
                    user: arrival.user,
                };
                entry.insert(client);
                clients.count(client);
                return id;
            }
        }
    }

    /// Record that a connection logged in (`Some`) or out (`None`).
    pub fn set_user(&self, id: ClientId, user: Option<UserId>) {
        self.lock().set_user(id, user);
    }

    /// Record that a connection logged in, unless its user has as many of these places as one may have.
    pub(crate) fn log_in(&self, id: ClientId, user: UserId, places: Places) -> bool {
        let mut clients = self.lock();
        let is_known = (clients.by_id.get(&id)).is_some_and(|client| client.user == Some(user));
        let has_place = is_known || clients.has_place_for(user, places);
        if has_place {
            clients.set_user(id, Some(user));
        }
        has_place
    }

    /// Return whether a user may have one more of these places.
    pub(crate) fn has_place_for(&self, user: UserId, places: Places) -> bool {
        self.lock().has_place_for(user, places)
    }

    /// Set the address of a connection from its PROXY header.
    pub(crate) fn set_address(&self, id: ClientId, address: SocketAddr) {
        if let Some(client) = self.lock().by_id.get_mut(&id) {
            client.arrival.address = address;
        }
    }

    /// Remove a closed connection.
    pub fn disconnected(&self, id: ClientId) {
        let mut clients = self.lock();
        if let Some(client) = clients.by_id.remove(&id) {
            clients.uncount(client);
        }
        clients.unwanted.remove(&id);
    }

    /// Ask the shard of a client's connection to close it. Returns false if the client is not connected.
    pub fn disconnect(&self, id: ClientId) -> bool {
        let mut clients = self.lock();
        let is_there = clients.by_id.get(&id).is_some_and(Client::is_listed);
        if is_there {
            clients.unwanted.insert(id);
            self.disconnections.fetch_add(1, Ordering::Release);
        }
        is_there
    }

    /// Number of disconnect requests so far. Shards check `unwanted` only after it has increased.
    pub(crate) fn disconnections(&self) -> u64 {
        self.disconnections.load(Ordering::Acquire)
    }

    /// Connections that are to be closed and are still open.
    pub(crate) fn to_disconnect(&self) -> BTreeSet<ClientId> {
        self.lock().unwanted.clone()
    }

    /// Return one connection.
    pub fn client(&self, id: ClientId) -> Option<Client> {
        self.lock().by_id.get(&id).copied()
    }

    /// Return the `ids` that are not connected.
    pub fn missing(&self, ids: impl IntoIterator<Item = ClientId>) -> Vec<ClientId> {
        let clients = self.lock();
        let ids = ids.into_iter();
        ids.filter(|id| !clients.by_id.contains_key(id)).collect()
    }

    /// All connections of clients, ascending by id, without in-process ones.
    pub fn clients(&self) -> Vec<Client> {
        let clients = self.lock();
        let listed = clients.by_id.values().filter(|client| client.is_listed());
        listed.copied().collect()
    }

    /// Number of client connections.
    pub fn count(&self) -> usize {
        let clients = self.lock();
        let listed = clients.by_id.values().filter(|client| client.is_listed());
        listed.count()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn identifiers_are_never_zero_and_skip_the_living() {
        let registry = ClientRegistry::default();
        let address = Arrival::tcp(SocketAddr::from(([127, 0, 0, 1], 4000)));
        registry.lock().last_id = u32::MAX - 1;
        let old = registry.connected(address);
        assert_eq!(old, ClientId(u32::MAX));
        assert_eq!(registry.connected(address), ClientId(1));
        registry.lock().last_id = u32::MAX - 1;
        assert_eq!(registry.connected(address), ClientId(2));
        registry.disconnected(old);
        assert_eq!(registry.client(old), None);
        assert_eq!(registry.count(), 2);
    }
}
