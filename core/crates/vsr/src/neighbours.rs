//! Pings between members, through which a node learns the clocks and the releases of the others.
//!
//! Pings belong to nodes, not to groups, and no safety property depends on them. A host owns one instance beside its
//! replicas: it sends the frames that [`Neighbours::pings`] returns, and passes frames of nodes to
//! [`Neighbours::on_frame`] instead of to a replica.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::Now;
use crate::clocks::{Agreement, Clocks, Window};
use crate::frame::area::{Ping, Pong};
use crate::frame::{Area, Frame, Origin, Release};

/// Number of ping intervals without an answer after which the known release of a member expires.
const RELEASE_EXPIRY_PINGS: u64 = 3;
/// Maximum ping interval while too few clocks have been read.
const INITIAL_PING_INTERVAL_NS: u64 = 100_000_000;

/// Reading of the host's own clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Nanoseconds of a clock that never goes back.
    pub monotonic_ns: u64,
    /// Nanoseconds since the Unix epoch, by the wall clock of this machine.
    pub wall_ns: u64,
}

/// State of the other members, learned from pings and their answers.
#[derive(Debug)]
pub struct Pings {
    origin: Origin,
    peers: Vec<u8>,
    every_ns: u64,
    ping_at_ns: u64,
    clocks: Clocks,
    /// Release and time of the last answer, per peer.
    releases: BTreeMap<u8, (Release, u64)>,
}

impl Pings {
    /// Create an instance without any knowledge of the `peers`. The origin identifies this node; its group and view do
    /// not matter.
    pub fn new(origin: Origin, members: u8, peers: Vec<u8>, ping_ms: u32) -> Self {
        Self {
            origin: Origin {
                group: 0,
                view: 0,
                epoch: 0,
                ..origin
            },
            peers,
            every_ns: u64::from(ping_ms) * 1_000_000,
            ping_at_ns: 0,
            clocks: Clocks::new(members),
            releases: BTreeMap::new(),
        }
    }

    /// Time of the next ping on the monotonic clock; `None` in a group of one.
    pub fn next_ping_ns(&self) -> Option<u64> {
        (!self.peers.is_empty()).then_some(self.ping_at_ns)
    }

    /// Send the next pings immediately, because a connection was established.
    pub const fn ping_now(&mut self) {
        self.ping_at_ns = 0;
    }

    /// Return the pings that are due.
    pub fn pings(&mut self, now: Reading) -> Vec<(u8, Frame)> {
        if now.monotonic_ns < self.ping_at_ns {
            return Vec::new();
        }
        let is_known = self.clocks.window(now.monotonic_ns, now.wall_ns).is_known();
        let wait_ns = if is_known {
            self.every_ns
        } else {
            self.every_ns.min(INITIAL_PING_INTERVAL_NS)
        };
        self.ping_at_ns = now.monotonic_ns + wait_ns;
        let ping = Ping {
            ping_monotonic_ns: now.monotonic_ns,
            wall_ns: now.wall_ns,
            boot_id_hash: 0,
        };
        let frame = Frame::seal(self.origin, ping, Slice::default()).any();
        self.peers
            .iter()
            .map(|peer| (*peer, frame.clone()))
            .collect()
    }

    /// Handle a frame of a node. Returns the answer for its author.
    pub fn on_frame(&mut self, now: Reading, frame: &Frame) -> Option<Frame> {
        let from = frame.header.replica;
        if !self.peers.contains(&from) {
            return None;
        }
        self.releases
            .insert(from, (frame.header.release, now.monotonic_ns));
        match frame.header.area {
            Area::Ping(question) => {
                let answer = Pong {
                    ping_monotonic_ns: question.ping_monotonic_ns,
                    wall_ns: now.wall_ns,
                };
                Some(Frame::seal(self.origin, answer, Slice::default()).any())
            }
            Area::Pong(answer) => {
                let asked_ns = answer.ping_monotonic_ns;
                self.clocks
                    .read(from, asked_ns, now.monotonic_ns, answer.wall_ns);
                None
            }
            _ => None,
        }
    }

    /// Highest release that all members support, including this one; `None` while any member is unheard.
    pub fn common_release(&self, now: Reading) -> Option<Release> {
        let oldest_ns = now
            .monotonic_ns
            .saturating_sub(RELEASE_EXPIRY_PINGS * self.every_ns);
        self.peers
            .iter()
            .map(|peer| {
                let (release, heard_ns) = self.releases.get(peer)?;
                (*heard_ns >= oldest_ns).then_some(*release)
            })
            .try_fold(self.origin.release, |common, release| {
                Some(common.min(release?))
            })
    }

    /// Time for a step.
    pub fn now(&self, now: Reading) -> Now {
        Now {
            monotonic_ns: now.monotonic_ns,
            wall: self.window(now),
        }
    }

    /// Window of the true time.
    pub fn window(&self, now: Reading) -> Window {
        self.clocks.window(now.monotonic_ns, now.wall_ns)
    }

    /// Agreement of the members' clocks.
    pub fn agreement(&self, now: Reading) -> Agreement {
        self.clocks.agreement(now.monotonic_ns, now.wall_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64, off_ms: u64) -> Reading {
        Reading {
            monotonic_ns: ms * MS,
            wall_ns: (1_000_000 + ms + off_ms) * MS,
        }
    }

    fn node(replica: u8) -> Pings {
        let origin = Origin {
            replica,
            ..Origin::default()
        };
        let peers = (0..3).filter(|peer| *peer != replica).collect();
        Pings::new(origin, 3, peers, 500)
    }

    #[test]
    fn a_round_of_pings_makes_the_time_known() {
        let (mut asks, mut answers) = (node(0), node(2));
        assert!(!asks.window(at(0, 0)).is_known());
        let pings = asks.pings(at(0, 0));
        assert_eq!(pings.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [1, 2]);
        // Short interval, because no clock has been read yet.
        assert_eq!(asks.next_ping_ns(), Some(100 * MS));
        let pong = answers.on_frame(at(7, 40), &pings[1].1).unwrap();
        assert_eq!(asks.on_frame(at(9, 0), &pong), None);
        let window = asks.window(at(10, 0));
        assert!(window.is_known());
        assert_eq!(asks.agreement(at(10, 0)), Agreement::Agreed);
        assert_eq!(asks.pings(at(99, 0)), Vec::new());
        assert_eq!(asks.pings(at(100, 0)).len(), 2);
        assert_eq!(asks.next_ping_ns(), Some(600 * MS));
    }

    #[test]
    fn a_release_is_common_while_all_members_say_so() {
        let (old, new) = (Release::new(1, 0, 0), Release::new(1, 1, 0));
        let (mut us, mut one, mut two) = (node(0), node(1), node(2));
        (us.origin.release, one.origin.release, two.origin.release) = (new, new, old);
        let hear = |us: &mut Pings, peer: &mut Pings, ms| {
            let pings = peer.pings(at(ms, 0));
            us.on_frame(at(ms, 0), &pings[0].1);
        };
        hear(&mut us, &mut one, 0);
        assert_eq!(us.common_release(at(0, 0)), None);
        hear(&mut us, &mut two, 0);
        assert_eq!(us.common_release(at(0, 0)), Some(old));
        two.origin.release = new;
        hear(&mut us, &mut two, 1_000);
        assert_eq!(us.common_release(at(1_000, 0)), Some(new));
        // The first peer has not been heard for too long.
        assert_eq!(us.common_release(at(1_600, 0)), None);
    }

    #[test]
    fn unknown_replicas_and_other_frames_are_ignored() {
        let (mut us, mut unknown) = (node(0), node(1));
        unknown.origin.replica = 4;
        let ping = &unknown.pings(at(0, 0))[0].1;
        assert_eq!(us.on_frame(at(0, 0), ping), None);
        let (_, own) = us.pings(at(0, 0)).remove(0);
        assert_eq!(us.on_frame(at(0, 0), &own), None);
    }

    #[test]
    fn a_group_of_one_sends_no_pings() {
        let mut alone = Pings::new(Origin::default(), 1, Vec::new(), 500);
        assert_eq!(alone.next_ping_ns(), None);
        assert_eq!(alone.pings(at(0, 0)), Vec::new());
        assert_eq!(alone.now(at(5, 0)).wall, Window::exact(at(5, 0).wall_ns));
    }
}
