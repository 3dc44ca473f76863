//! Connections between the hosts of a run: byte streams that the production code reads, writes, dials and accepts.
//!
//! Both ends are stored here. Bytes written at one end stay there until the run takes them and delivers them to the
//! other end, in order and with a delay.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headrace_replica::surroundings::{Connection, Network};

/// Capacity of a socket buffer.
const BUFFER_BYTES: usize = 256 * 1024;

/// One end of a connection: its number, and 0 for the dialing or 1 for the accepting side.
pub(super) type EndId = (u64, u8);

/// All connections of a run.
#[derive(Debug, Default)]
pub(super) struct Connections {
    numbered: u64,
    ends: BTreeMap<EndId, End>,
    /// Connections dialled and not accepted yet, by node.
    waiting: BTreeMap<u8, VecDeque<EndId>>,
    dials: Vec<(u8, u8)>,
}

#[derive(Debug)]
struct End {
    node: u8,
    peer: u8,
    arrived: VecDeque<u8>,
    /// True if nothing more arrives.
    peer_closed: bool,
    written: Vec<u8>,
    /// Number of bytes in flight.
    in_flight: usize,
    /// True if the process has closed this end.
    is_closed: bool,
}

/// Activity of an end since the last call of `outgoing`.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) end: EndId,
    pub(super) to: u8,
    pub(super) bytes: Vec<u8>,
    pub(super) closes: bool,
}

/// Shared handle on the connections of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Connections>>);

impl Shared {
    fn wires(&self) -> MutexGuard<'_, Connections> {
        // A run has only one thread.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Peers that a node has begun to dial.
    pub(super) fn dials(&self) -> Vec<(u8, u8)> {
        std::mem::take(&mut self.wires().dials)
    }

    /// Connect two nodes. Returns the end of the dialing side; the other one waits to be accepted.
    pub(super) fn connect(&self, from: u8, to: u8) -> Box<dyn Connection> {
        let mut wires = self.wires();
        wires.numbered += 1;
        let number = wires.numbered;
        for (side, node, peer) in [(0, from, to), (1, to, from)] {
            let end = End {
                node,
                peer,
                arrived: VecDeque::new(),
                peer_closed: false,
                written: Vec::new(),
                in_flight: 0,
                is_closed: false,
            };
            wires.ends.insert((number, side), end);
        }
        wires.waiting.entry(to).or_default().push_back((number, 1));
        drop(wires);
        self.end((number, 0))
    }

    fn end(&self, end: EndId) -> Box<dyn Connection> {
        Box::new(Wire {
            shared: self.clone(),
            end,
        })
    }

    /// Bytes written and ends closed by a node since the last call, in the order of the connections.
    pub(super) fn outgoing(&self, node: u8) -> Vec<Outgoing> {
        let mut wires = self.wires();
        let mut outgoing = Vec::new();
        for (id, end) in &mut wires.ends {
            if end.node != node || (end.written.is_empty() && !end.is_closed) {
                continue;
            }
            let bytes = std::mem::take(&mut end.written);
            end.in_flight += bytes.len();
            outgoing.push(Outgoing {
                end: *id,
                to: end.peer,
                bytes,
                closes: end.is_closed,
            });
        }
        wires
            .ends
            .retain(|_, end| end.node != node || !end.is_closed);
        outgoing
    }

    /// Deliver bytes to the other end of `from`. Returns whether that end is still open.
    pub(super) fn arrive(&self, from: EndId, bytes: &[u8]) -> bool {
        let mut wires = self.wires();
        if let Some(end) = wires.ends.get_mut(&from) {
            end.in_flight = end.in_flight.saturating_sub(bytes.len());
        }
        match wires.ends.get_mut(&other(from)) {
            Some(end) if !end.peer_closed => {
                end.arrived.extend(bytes);
                true
            }
            _ => false,
        }
    }

    /// Mark the other end of `from` as closed by its peer.
    pub(super) fn close_other(&self, from: EndId) {
        if let Some(end) = self.wires().ends.get_mut(&other(from)) {
            end.peer_closed = true;
        }
    }

    /// Mark both ends of a connection as closed by their peers.
    pub(super) fn close_both(&self, from: EndId) {
        let mut wires = self.wires();
        for id in [from, other(from)] {
            if let Some(end) = wires.ends.get_mut(&id) {
                end.peer_closed = true;
            }
        }
    }

    /// Close all ends of a process that has ended. Returns them with the bytes that they had written.
    pub(super) fn end_all(&self, node: u8) -> Vec<Outgoing> {
        let mut wires = self.wires();
        wires.waiting.remove(&node);
        wires.dials.retain(|(from, _)| *from != node);
        for end in wires.ends.values_mut().filter(|end| end.node == node) {
            end.is_closed = true;
        }
        drop(wires);
        self.outgoing(node)
    }
}

fn other((number, side): EndId) -> EndId {
    (number, 1 - side)
}

/// Network interface of one node.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) wires: Shared,
    pub(super) node: u8,
}

impl Network for Socket {
    fn accept(&self) -> io::Result<Box<dyn Connection>> {
        let waiting = self
            .wires
            .wires()
            .waiting
            .get_mut(&self.node)
            .and_then(VecDeque::pop_front);
        waiting
            .map(|end| self.wires.end(end))
            .ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    fn dial(&self, peer: u8) {
        self.wires.wires().dials.push((self.node, peer));
    }
}

/// End of a connection as used by a process.
#[derive(Debug)]
struct Wire {
    shared: Shared,
    end: EndId,
}

impl Connection for Wire {}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut wires = self.shared.wires();
        let Some(end) = wires.ends.get_mut(&self.end) else {
            return Ok(0);
        };
        if end.arrived.is_empty() && !end.peer_closed {
            return Err(ErrorKind::WouldBlock.into());
        }
        end.arrived.read(into)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut wires = self.shared.wires();
        let Some(end) = wires.ends.get_mut(&self.end).filter(|end| !end.peer_closed) else {
            return Err(ErrorKind::ConnectionReset.into());
        };
        let room = BUFFER_BYTES.saturating_sub(end.in_flight + end.written.len());
        if room == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let taken = bytes.len().min(room);
        end.written.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Some(end) = self.shared.wires().ends.get_mut(&self.end) {
            end.is_closed = true;
        }
    }
}
