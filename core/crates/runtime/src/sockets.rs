//! The host's socket table: maps connection keys to descriptors.

use std::os::fd::RawFd;

use headrace_shard::ConnectionKey;

/// Bits of a generation. It shares the upper half of a token with the token's kind.
pub(crate) const GENERATION_MASK: u32 = (1 << 28) - 1;

#[derive(Debug)]
struct Slot {
    generation: u32,
    socket: Option<RawFd>,
    in_flight: u32,
    closing: bool,
}

/// Sockets of one shard. A slot is reused only when nothing refers to its former socket.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Sockets {
    /// Assign a key to a socket.
    pub(crate) fn insert(&mut self, socket: RawFd) -> ConnectionKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                socket: None,
                in_flight: 0,
                closing: false,
            });
            u32::try_from(self.slots.len() - 1).expect("descriptors are far fewer")
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        slot.socket = Some(socket);
        slot.closing = false;
        ConnectionKey {
            index,
            generation: slot.generation,
        }
    }

    fn slot_mut(&mut self, key: ConnectionKey) -> Option<&mut Slot> {
        self.slots
            .get_mut(key.index as usize)
            .filter(|slot| slot.generation == key.generation)
    }

    /// Count a new operation and return the socket; `None` if it is closing or closed.
    pub(crate) fn begin(&mut self, key: ConnectionKey) -> Option<RawFd> {
        let slot = self.slot_mut(key).filter(|slot| !slot.closing)?;
        slot.in_flight += 1;
        slot.socket
    }

    /// Return the socket, unless it is closing or closed.
    pub(crate) fn get(&self, key: ConnectionKey) -> Option<RawFd> {
        let slot = self.slots.get(key.index as usize)?;
        slot.socket.filter(|_| slot.generation == key.generation)
    }

    /// Mark the socket as closing and return it, once.
    pub(crate) fn begin_close(&mut self, key: ConnectionKey) -> Option<RawFd> {
        let slot = self.slot_mut(key).filter(|slot| !slot.closing)?;
        slot.closing = true;
        slot.in_flight += 1;
        slot.socket.take()
    }

    /// Remove the socket without closing it; no operation may be in flight on it.
    pub(crate) fn remove(&mut self, key: ConnectionKey) -> Option<RawFd> {
        let slot = self
            .slot_mut(key)
            .filter(|slot| !slot.closing && slot.in_flight == 0)?;
        let socket = slot.socket.take();
        self.free.push(key.index);
        socket
    }

    /// Note the end of an operation.
    pub(crate) fn end(&mut self, key: ConnectionKey) {
        let Some(slot) = self.slot_mut(key) else {
            return;
        };
        slot.in_flight -= 1;
        if slot.closing && slot.in_flight == 0 {
            self.free.push(key.index);
        }
    }

    /// Keys of open sockets.
    pub(crate) fn open(&self) -> Vec<ConnectionKey> {
        (0..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.socket.is_some())
            .map(|(index, slot)| ConnectionKey {
                index,
                generation: slot.generation,
            })
            .collect()
    }

    /// Return whether no socket is open and no operation in flight.
    pub(crate) fn is_quiet(&self) -> bool {
        self.slots
            .iter()
            .all(|slot| slot.socket.is_none() && slot.in_flight == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_only_when_quiet() {
        let mut sockets = Sockets::default();
        let first = sockets.insert(10);
        assert_eq!(sockets.begin(first), Some(10));
        assert_eq!(sockets.begin_close(first), Some(10));
        assert_eq!(sockets.begin(first), None);
        assert_eq!(sockets.begin_close(first), None);
        sockets.end(first);
        let second = sockets.insert(11);
        assert_ne!(first.index, second.index);
        sockets.end(first);
        let third = sockets.insert(12);
        assert_eq!(third.index, first.index);
        assert_ne!(third.generation, first.generation);
        assert_eq!(sockets.begin(first), None);
        assert_eq!(sockets.open(), vec![third, second]);
    }
}
