//! Connections between the hosts of a run: streams of bytes that the production code reads, writes, dials and accepts.
//!
//! Both ends lie in one place. What an end has written stays there until the run takes it and lets it arrive at the other
//! one, in order, some time later.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headrace_replica::surroundings::{Connection, Network};

/// What a socket's buffer takes before it is full.
const BUFFER_BYTES: usize = 256 * 1024;

/// One end of a connection: its number, and 0 for who dialled or 1 for who accepted.
pub(super) type EndId = (u64, u8);

/// All connections of a run.
#[derive(Debug, Default)]
pub(super) struct Wires {
    numbered: u64,
    ends: BTreeMap<EndId, End>,
    /// Connections that were dialled and not accepted yet, by node.
    waiting: BTreeMap<u8, VecDeque<EndId>>,
    dials: Vec<(u8, u8)>,
}

#[derive(Debug)]
struct End {
    node: u8,
    peer: u8,
    arrived: VecDeque<u8>,
    /// Nothing more arrives.
    is_over: bool,
    written: Vec<u8>,
    /// Bytes that have left and have not arrived.
    under_way: usize,
    /// The process has closed it.
    is_closed: bool,
}

/// What an end has done since it was looked at.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) end: EndId,
    pub(super) to: u8,
    pub(super) bytes: Vec<u8>,
    pub(super) closes: bool,
}

/// The connections of a run, for those who share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Wires>>);

impl Shared {
    fn wires(&self) -> MutexGuard<'_, Wires> {
        // A run has one thread.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peers that a node has begun to dial.
    pub(super) fn dials(&self) -> Vec<(u8, u8)> {
        std::mem::take(&mut self.wires().dials)
    }

    /// Connects two nodes. Returns the end of who dialled; the other one waits to be accepted.
    pub(super) fn connect(&self, from: u8, to: u8) -> Box<dyn Connection> {
        let mut wires = self.wires();
        wires.numbered += 1;
        let number = wires.numbered;
        for (side, node, peer) in [(0, from, to), (1, to, from)] {
            let end = End {
                node,
                peer,
                arrived: VecDeque::new(),
                is_over: false,
                written: Vec::new(),
                under_way: 0,
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

    /// What the ends of a node have written and closed since the last call, in the order of the connections.
    pub(super) fn outgoing(&self, node: u8) -> Vec<Outgoing> {
        let mut wires = self.wires();
        let mut outgoing = Vec::new();
        for (id, end) in &mut wires.ends {
            if end.node != node || (end.written.is_empty() && !end.is_closed) {
                continue;
            }
            let bytes = std::mem::take(&mut end.written);
            end.under_way += bytes.len();
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

    /// Bytes arrive at the other end of `from`. Returns whether there is still somebody to read them.
    pub(super) fn arrive(&self, from: EndId, bytes: &[u8]) -> bool {
        let mut wires = self.wires();
        if let Some(end) = wires.ends.get_mut(&from) {
            end.under_way = end.under_way.saturating_sub(bytes.len());
        }
        match wires.ends.get_mut(&other(from)) {
            Some(end) if !end.is_over => {
                end.arrived.extend(bytes);
                true
            }
            _ => false,
        }
    }

    /// The other end of `from` learns that the connection is over.
    pub(super) fn close_other(&self, from: EndId) {
        if let Some(end) = self.wires().ends.get_mut(&other(from)) {
            end.is_over = true;
        }
    }

    /// Both ends learn that the connection is over.
    pub(super) fn break_off(&self, from: EndId) {
        let mut wires = self.wires();
        for id in [from, other(from)] {
            if let Some(end) = wires.ends.get_mut(&id) {
                end.is_over = true;
            }
        }
    }

    /// The process of a node is over, and with it its ends. Returns them with what they had written.
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

/// The network of one node.
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

/// An end in the hands of a process.
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
        if end.arrived.is_empty() && !end.is_over {
            return Err(ErrorKind::WouldBlock.into());
        }
        end.arrived.read(into)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut wires = self.shared.wires();
        let Some(end) = wires.ends.get_mut(&self.end).filter(|end| !end.is_over) else {
            return Err(ErrorKind::ConnectionReset.into());
        };
        let room = BUFFER_BYTES.saturating_sub(end.under_way + end.written.len());
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
