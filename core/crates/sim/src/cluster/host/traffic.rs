//! Bytes sent over the connections of the hosts, and the end of connections.

use std::io::{self, ErrorKind};

use headrace_buffer::Slice;

use super::wire::{EndId, Outgoing};
use super::{Cluster, Host, HostEvent};
use crate::options::{MILLISECOND, SECOND};
use crate::random::Domain;

/// Retransmission delay of a lost segment.
const RETRANSMITTED_NS: u64 = 200 * MILLISECOND;

impl Cluster<Host> {
    /// Start the dials, sends and closes of a process. `sent`: only this many connections get anything.
    pub(super) fn send(&mut self, node: u8, sent: Option<u8>) {
        for (from, to) in self.kind.wires.dials() {
            self.dial(from, to);
        }
        let outgoing = self.kind.wires.outgoing(node);
        let sent = sent.map_or(usize::MAX, usize::from);
        for outgoing in outgoing.into_iter().take(sent) {
            self.send_one(node, outgoing);
        }
    }

    fn send_one(&mut self, node: u8, outgoing: Outgoing) {
        let Outgoing {
            end,
            to,
            bytes,
            closes,
        } = outgoing;
        if !bytes.is_empty() {
            self.segment(node, to, end, bytes);
        }
        if closes {
            let at_ns = self
                .now_ns()
                .max(self.kind.arrivals.remove(&end).unwrap_or(0))
                + MILLISECOND;
            self.schedule
                .plan_own(at_ns, 2, HostEvent::Closed { to, end });
        }
    }

    fn segment(&mut self, from: u8, to: u8, end: EndId, bytes: Vec<u8>) {
        let now_ns = self.now_ns();
        let sum = bytes.iter().fold(0_u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
        });
        self.trace.event(now_ns, from, "sent", &[to.into(), sum]);
        self.trace.explain(now_ns, from, || {
            format!("-> {to} {} bytes on {end:?}", bytes.len())
        });
        let bytes = Slice::from_vec(bytes);
        let is_cut = self.network.is_cut(now_ns, from, to);
        let [first, second] = self.network.send(now_ns, from, to, &bytes);
        if second.is_some() {
            self.network.arrived(from, to);
        }
        let mut draw = self.draw(Domain::Network, from);
        let (at_ns, bytes) = match first {
            Some(delivery) => (delivery.at_ns, delivery.bytes),
            // A connection ends if a cut drops a segment or retransmission fails for too long.
            None if is_cut || draw.chance(100_000) => {
                self.tally.add("connections broken");
                let broken = HostEvent::Broken {
                    nodes: [from, to],
                    end,
                };
                let at_ns = now_ns + draw.within(1, 2_000) * MILLISECOND;
                return self.schedule.plan_own(at_ns, 2, broken);
            }
            None => {
                self.tally.add("segments sent again");
                (now_ns + RETRANSMITTED_NS, bytes)
            }
        };
        let newest_ns = self.kind.arrivals.entry(end).or_default();
        *newest_ns = at_ns.max(*newest_ns);
        let arrived = HostEvent::Arrived {
            from,
            to,
            end,
            bytes,
        };
        self.schedule.plan_own(*newest_ns, 2, arrived);
    }

    pub(super) fn arrived(&mut self, from: u8, to: u8, end: EndId, bytes: &Slice) {
        self.network.arrived(from, to);
        let now_ns = self.now_ns();
        self.trace.event(now_ns, to, "arrived", &[from.into()]);
        if !self.kind.wires.arrive(end, bytes) {
            self.kind.wires.close_both(end);
            return self.run_turn(from);
        }
        self.run_turn(to);
    }

    fn dial(&mut self, from: u8, to: u8) {
        let Some(process) = &self.nodes[usize::from(from)].process else {
            return;
        };
        let incarnation = process.incarnation;
        let now_ns = self.now_ns();
        let is_cut = |a, b| self.network.is_cut(now_ns, a, b);
        let at_ns = if is_cut(from, to) || is_cut(to, from) {
            now_ns + SECOND
        } else {
            now_ns + MILLISECOND
        };
        let dialled = HostEvent::Dialled {
            from,
            to,
            incarnation,
        };
        self.schedule.plan_own(at_ns, 2, dialled);
    }

    pub(super) fn dialled(&mut self, from: u8, to: u8, incarnation: u64) {
        let now_ns = self.now_ns();
        self.trace.event(now_ns, from, "dialled", &[to.into()]);
        let is_cut = self.network.is_cut(now_ns, from, to) || self.network.is_cut(now_ns, to, from);
        let answers = self.nodes[usize::from(to)].process.is_some();
        let Some(process) = &self.nodes[usize::from(from)].process else {
            return;
        };
        if process.incarnation != incarnation {
            return;
        }
        let connection = if is_cut {
            Err(io::Error::from(ErrorKind::TimedOut))
        } else if answers {
            self.tally.add("connections dialled");
            Ok(self.kind.wires.connect(from, to))
        } else {
            Err(ErrorKind::ConnectionRefused.into())
        };
        process.stepped.dialled(to, connection);
        self.run_turn(from);
        self.run_turn(to);
    }

    /// Close the connections of a process that has ended: `sent` of them still transmit the bytes written to them.
    /// Peers notice the end, with a delay if the machine lost power.
    pub(super) fn hang_up(&mut self, node: u8, sent: Option<u8>, without_power: bool) {
        let outgoing = self.kind.wires.end_all(node);
        let sent = sent.map_or(0, usize::from);
        for (index, outgoing) in outgoing.into_iter().enumerate() {
            let Outgoing { end, to, bytes, .. } = outgoing;
            if index < sent && !bytes.is_empty() {
                self.segment(node, to, end, bytes);
            }
            let mut draw = self.draw(Domain::Network, node);
            let silent_ns = draw.below(2 * SECOND);
            let known_ns = self.kind.arrivals.remove(&end).unwrap_or(0);
            let at_ns = self.now_ns().max(known_ns) + MILLISECOND;
            let at_ns = at_ns + if without_power { silent_ns } else { 0 };
            self.schedule
                .plan_own(at_ns, 2, HostEvent::Closed { to, end });
        }
    }
}
