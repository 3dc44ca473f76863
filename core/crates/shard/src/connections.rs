//! The table of a shard's connections, and the list of those that something has happened to.

use crate::{Shard, api::ConnectionKey, connection::Connection};

impl Shard {
    pub(crate) fn touch_all(&mut self) {
        let keys: Vec<ConnectionKey> = self
            .connections
            .iter()
            .flatten()
            .map(|connection| connection.key)
            .collect();
        for key in keys {
            self.touch(key);
        }
    }

    pub(crate) fn touch(&mut self, key: ConnectionKey) {
        if let Some(connection) = self.connection_mut(key)
            && !connection.touched
        {
            connection.touched = true;
            self.touched.push(key);
        }
    }

    pub(crate) fn connection_mut(&mut self, key: ConnectionKey) -> Option<&mut Connection> {
        self.connections
            .get_mut(key.index as usize)?
            .as_deref_mut()
            .filter(|connection| connection.key == key)
    }

    pub(crate) fn take_connection(&mut self, key: ConnectionKey) -> Option<Box<Connection>> {
        let place = self.connections.get_mut(key.index as usize)?;
        if place.as_ref()?.key == key {
            place.take()
        } else {
            None
        }
    }

    pub(crate) fn put_connection(&mut self, connection: Box<Connection>) {
        let index = connection.key.index as usize;
        self.connections[index] = Some(connection);
    }
}
