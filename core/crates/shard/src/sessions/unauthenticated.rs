//! Connections without a login, which leave when all places are taken.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

use headrace_model::Timestamp;

use super::{Sessions, connection::Connection};
use crate::calls::ConnectionKey;

/// Interval between two searches for connections without a login, which look at all connections.
const SEARCH_PAUSE_MICROS: u64 = 10_000;
/// Divisor of the number of an address's connections without a login: the part of them that leaves at once.
const LEAVING_DIVISOR: usize = 8;
/// Bits of an IPv6 address that identify a host's network.
const NETWORK_BITS: u32 = 64;

/// Host or network that an address belongs to.
fn origin(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let network = u128::from(address) >> NETWORK_BITS << NETWORK_BITS;
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

fn is_unauthenticated(connection: &Connection) -> bool {
    connection.gateway_link.is_none()
        && !connection.session.is_authenticated()
        && !connection.session.arrival.is_in_process()
}

impl Sessions {
    /// Make room when all places are taken: return the oldest connections without a login of the address that has most
    /// of them, which are to be closed. Other addresses keep theirs, and so does every user.
    pub(crate) fn take_unauthenticated(&mut self, now: Timestamp) -> Vec<ConnectionKey> {
        if self.checks.unauthenticated > now {
            return Vec::new();
        }
        self.checks.unauthenticated = Timestamp(now.0 + SEARCH_PAUSE_MICROS);
        let mut by_origin: BTreeMap<IpAddr, Vec<(Timestamp, ConnectionKey)>> = BTreeMap::new();
        for connection in self.iter().filter(|known| is_unauthenticated(known)) {
            let session = &connection.session;
            let waiting = by_origin.entry(origin(session.arrival.address.ip()));
            let found = (session.login_until, connection.key);
            waiting.or_default().push(found);
        }
        let most = by_origin.into_values().max_by_key(Vec::len);
        let mut leaving = most.unwrap_or_default();
        leaving.sort_unstable();
        leaving.truncate((leaving.len() / LEAVING_DIVISOR).max(1));
        leaving.into_iter().map(|(_, key)| key).collect()
    }
}
