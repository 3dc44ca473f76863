//! Directed links between nodes: delay, loss, duplication, damage, cuts, bounded queues.

use headrace_buffer::Slice;

use crate::options::{NetworkOptions, SECOND};
use crate::random::{Domain, Draw, Fates};

/// Maximum number of nodes of a network: members 0 to 7, followed by clients.
pub const NODES: usize = 32;
/// Number of the first client's node.
pub const FIRST_CLIENT: u8 = 8;
/// Maximum number of frames that a cut link holds back until the end of the cut.
const HELD_FRAMES: u32 = 64;

/// Copy of a frame in flight.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Arrival time.
    pub at_ns: u64,
    /// Bytes as they arrive.
    pub bytes: Slice,
    /// True if the bytes differ from those sent.
    pub is_damaged: bool,
}

/// Counters of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Number of frames sent.
    pub sent: u64,
    /// Number of frames lost by chance, by a cut or by a full queue.
    pub lost: u64,
    /// Number of duplicates.
    pub duplicated: u64,
    /// Number of frames damaged in flight.
    pub corrupted: u64,
    /// Number of frames held back until the end of a cut.
    pub held: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    sent: u64,
    under_way: u32,
    held: u32,
    cut_until_ns: u64,
    hold: bool,
    last_at_ns: u64,
}

/// All links of a run.
#[derive(Debug)]
pub struct Network {
    fates: Fates,
    options: NetworkOptions,
    links: Vec<Link>,
    counters: NetworkCounters,
}

impl Network {
    /// Links with the given behaviour.
    pub fn new(fates: Fates, options: NetworkOptions) -> Self {
        Self {
            fates,
            options,
            links: vec![Link::default(); NODES * NODES],
            counters: NetworkCounters::default(),
        }
    }

    /// Counters so far.
    pub const fn counters(&self) -> NetworkCounters {
        self.counters
    }

    /// End all cuts and change the behaviour of the links.
    pub fn heal(&mut self, options: NetworkOptions) {
        self.options = options;
        for link in &mut self.links {
            link.cut_until_ns = 0;
        }
    }

    /// Cut the links of `mask` (a bit per `from * 8 + to`) until `until_ns`.
    pub fn cut(&mut self, mask: u64, until_ns: u64, hold: bool) {
        for bit in (0..64_usize).filter(|bit| mask >> bit & 1 == 1) {
            let link = &mut self.links[bit / 8 * NODES + bit % 8];
            link.cut_until_ns = link.cut_until_ns.max(until_ns);
            link.hold = hold;
            link.held = 0;
        }
    }

    /// Return whether the link from `from` to `to` is cut at this time.
    pub fn is_cut(&self, now_ns: u64, from: u8, to: u8) -> bool {
        self.links[index(from, to)].cut_until_ns > now_ns
    }

    /// Send a frame from `from` to `to`. Returns the copies that will arrive.
    pub fn send(&mut self, now_ns: u64, from: u8, to: u8, bytes: &Slice) -> [Option<Delivery>; 2] {
        let at = index(from, to);
        let count = self.links[at].sent;
        self.links[at].sent += 1;
        self.counters.sent += 1;
        let mut draw = self
            .fates
            .draw(Domain::Network, from.into(), to.into(), count);
        // All numbers are drawn in every case, so that the fates are independent of each other.
        let delay_ns = self.options.delay_min_ns
            + draw
                .exponential(self.options.delay_mean_ns)
                .min(10 * SECOND);
        let lost = draw.chance(self.options.loss_ppm);
        let duplicate = draw.chance(self.options.duplicate_ppm);
        let duplicate_delay_ns = draw.below(self.options.duplicate_delay_ns.saturating_add(1));
        let corrupt = draw.chance(self.options.corrupt_ppm);
        let perfect = from < 8 && to < 8 && self.options.perfect_links >> (from * 8 + to) & 1 == 1;

        let link = &mut self.links[at];
        let mut start_ns = now_ns;
        if link.cut_until_ns > now_ns {
            if !link.hold || link.held >= HELD_FRAMES {
                self.counters.lost += 1;
                return [None, None];
            }
            link.held += 1;
            self.counters.held += 1;
            start_ns = link.cut_until_ns;
        } else if !perfect && (lost || link.under_way >= self.options.capacity) {
            self.counters.lost += 1;
            return [None, None];
        }
        let mut at_ns = start_ns
            + if perfect {
                self.options.delay_min_ns
            } else {
                delay_ns
            };
        if self.options.fifo || perfect {
            at_ns = at_ns.max(link.last_at_ns);
            link.last_at_ns = at_ns;
        }
        link.under_way += 1;
        let is_corrupted = corrupt && !perfect && !bytes.is_empty();
        let arriving = if is_corrupted {
            self.counters.corrupted += 1;
            damaged(bytes, &mut draw)
        } else {
            bytes.clone()
        };
        let second = (duplicate && !perfect).then(|| {
            self.counters.duplicated += 1;
            self.links[at].under_way += 1;
            Delivery {
                at_ns: at_ns + duplicate_delay_ns,
                bytes: bytes.clone(),
                is_damaged: false,
            }
        });
        [
            Some(Delivery {
                at_ns,
                is_damaged: is_corrupted && arriving != *bytes,
                bytes: arriving,
            }),
            second,
        ]
    }

    /// Remove a copy that has arrived from the queue of its link.
    pub fn arrived(&mut self, from: u8, to: u8) {
        let link = &mut self.links[index(from, to)];
        link.under_way = link.under_way.saturating_sub(1);
    }
}

fn index(from: u8, to: u8) -> usize {
    usize::from(from) * NODES + usize::from(to)
}

/// Flip a few bits, cut the end off, or put foreign bytes in front.
fn damaged(bytes: &Slice, draw: &mut Draw) -> Slice {
    let mut copy = bytes.to_vec();
    let place =
        |draw: &mut Draw, len: usize| usize::try_from(draw.below(len as u64)).expect("an index");
    match draw.below(4) {
        0 | 1 => {
            for _ in 0..draw.within(1, 8) {
                let at = place(draw, copy.len());
                copy[at] ^= 1 << draw.below(8);
            }
        }
        2 => {
            let keep = place(draw, copy.len());
            copy.truncate(keep);
        }
        _ => {
            let garbage = place(draw, 64);
            copy.splice(
                0..0,
                (0..=garbage).map(|byte| u8::try_from(byte).expect("below 64")),
            );
        }
    }
    Slice::from_vec(copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::MILLISECOND;

    fn frame() -> Slice {
        Slice::from_vec(vec![7; 300])
    }

    #[test]
    fn a_perfect_link_delivers_everything_once_and_in_order() {
        let mut network = Network::new(Fates::new(1), NetworkOptions::perfect());
        let mut last_ns = 0;
        for count in 0..100 {
            let [Some(first), None] = network.send(count * 10, 0, 1, &frame()) else {
                panic!("exactly one copy");
            };
            assert!(first.at_ns >= last_ns);
            assert_eq!(first.bytes, frame());
            last_ns = first.at_ns;
        }
        assert_eq!(network.counters().lost, 0);
    }

    #[test]
    fn a_cut_is_one_way_and_ends() {
        let mut network = Network::new(Fates::new(1), NetworkOptions::perfect());
        network.cut(1 << 1, 50 * MILLISECOND, false);
        assert!(network.send(0, 0, 1, &frame())[0].is_none());
        assert!(network.send(0, 1, 0, &frame())[0].is_some());
        assert!(network.send(50 * MILLISECOND, 0, 1, &frame())[0].is_some());
    }

    #[test]
    fn held_frames_arrive_after_the_cut_up_to_a_bound() {
        let mut network = Network::new(Fates::new(1), NetworkOptions::perfect());
        network.cut(1 << 1, 50 * MILLISECOND, true);
        let kept = (0..100)
            .filter_map(|_| network.send(0, 0, 1, &frame())[0].clone())
            .collect::<Vec<_>>();
        assert_eq!(kept.len(), 64);
        assert!(
            kept.iter()
                .all(|delivery| delivery.at_ns >= 50 * MILLISECOND)
        );
    }

    #[test]
    fn the_fate_of_a_frame_does_not_depend_on_other_links() {
        let options = NetworkOptions {
            loss_ppm: 400_000,
            duplicate_ppm: 300_000,
            ..NetworkOptions::perfect()
        };
        let fates = |noise: bool| {
            let mut network = Network::new(
                Fates::new(9),
                NetworkOptions {
                    fifo: false,
                    ..options.clone()
                },
            );
            (0..200)
                .map(|_| {
                    if noise {
                        network.send(0, 2, 1, &frame());
                    }
                    let [first, second] = network.send(0, 0, 1, &frame());
                    (
                        first.map(|delivery| delivery.at_ns),
                        second.map(|delivery| delivery.at_ns),
                    )
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(fates(false), fates(true));
    }

    #[test]
    fn damage_changes_bytes() {
        let options = NetworkOptions {
            corrupt_ppm: 1_000_000,
            ..NetworkOptions::perfect()
        };
        let mut network = Network::new(Fates::new(4), options);
        let changed = (0..100)
            .filter(|_| {
                network.send(0, 0, 1, &frame())[0]
                    .as_ref()
                    .is_some_and(|delivery| delivery.bytes != frame())
            })
            .count();
        // Two flips of the same bit occasionally cancel out.
        assert!(changed > 95, "{changed}");
    }
}
