//! Comparison of a log with a list of messages, under random histories of a replica: it leads, follows, is truncated,
//! starts elsewhere, and crashes at any time.

use headrace_log::{LogConfig, Notice, RangeDigest, TruncateError};
use headrace_model::{Durability, Offset};
use headrace_wire::hash::xxh3_64;
use proptest::prelude::*;

use crate::support::disk::Crash;
use crate::support::log_host::{LogHost, stamped};
use crate::support::messages::{Sent, sent};
use crate::support::world::config;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Append as a leader.
    Append {
        count: u64,
        length: usize,
    },
    /// Append as a follower, perhaps with a new segment; or try a run with one wrong byte.
    Run {
        count: u64,
        length: usize,
        begins_segment: bool,
        wrong: Option<usize>,
    },
    Roll,
    Commit {
        back: u64,
    },
    Remove {
        count: u32,
    },
    /// Truncate to an offset, relative to the end.
    Truncate {
        back: u64,
    },
    StartAt {
        offset: u64,
    },
    Read {
        back: u64,
        count: u32,
    },
    Digest {
        back: u64,
        bytes_max: u64,
    },
    Flush {
        fsync: bool,
    },
    Time {
        micros: u64,
    },
    Disk {
        steps: u8,
    },
    Settle,
    EvictMemory,
    Restart,
    Crash {
        power: bool,
    },
}

/// Length of a payload, often the same one: what follows a cut may then lie where dropped messages lay.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(300_usize), 1 => 0_usize..1_500]
}

fn steps() -> impl Strategy<Value = Step> {
    let back = || 0_u64..30;
    prop_oneof![
        4 => (1_u64..6, lengths()).prop_map(|(count, length)| Step::Append { count, length }),
        4 => (1_u64..6, lengths(), any::<bool>(), prop::option::weighted(0.2, 0_usize..5_000)).prop_map(
            |(count, length, begins_segment, wrong)| Step::Run { count, length, begins_segment, wrong }
        ),
        1 => Just(Step::Roll),
        3 => back().prop_map(|back| Step::Commit { back }),
        1 => (1_u32..3).prop_map(|count| Step::Remove { count }),
        3 => back().prop_map(|back| Step::Truncate { back }),
        1 => (0_u64..100).prop_map(|offset| Step::StartAt { offset }),
        4 => (back(), 0_u32..20).prop_map(|(back, count)| Step::Read { back, count }),
        1 => (back(), 1_000_u64..9_000).prop_map(|(back, bytes_max)| Step::Digest { back, bytes_max }),
        1 => any::<bool>().prop_map(|fsync| Step::Flush { fsync }),
        2 => (0_u64..2_000_000).prop_map(|micros| Step::Time { micros }),
        4 => (1_u8..20).prop_map(|steps| Step::Disk { steps }),
        2 => Just(Step::Settle),
        1 => Just(Step::EvictMemory),
        1 => Just(Step::Restart),
        2 => any::<bool>().prop_map(|power| Step::Crash { power }),
    ]
}

fn settings() -> impl Strategy<Value = LogConfig> {
    let durability = prop::sample::select(Durability::ALL.to_vec());
    let tail = prop_oneof![Just(0_u64), Just(8_192), Just(1 << 20)];
    let segment = prop_oneof![Just(600_u64), Just(5_000), Just(100_000)];
    (durability, tail, segment, any::<bool>()).prop_map(
        |(durability, tail_cache_bytes, segment_size_bytes, replicated)| LogConfig {
            replicated,
            tail_cache_bytes,
            segment_size_bytes,
            flush_messages: 20,
            ..config(durability)
        },
    )
}

struct Model {
    host: LogHost,
    /// Bytes of each message from offset `base` on.
    messages: Vec<Vec<u8>>,
    base: u64,
    first: u64,
    committed: u64,
    number: u64,
    /// First and next offset after the truncation in progress.
    truncation: Option<(u64, u64)>,
    /// Ends for certain at the beginning of the truncation, after a kill and after a loss of power.
    certain: (u64, u64),
}

impl Model {
    fn new(config: LogConfig, seed: u64) -> Self {
        let mut host = LogHost::new(config);
        host.random.seed(seed);
        host.is_shuffled = true;
        Self {
            host,
            messages: Vec::new(),
            base: 0,
            first: 0,
            committed: 0,
            number: 0,
            truncation: None,
            certain: (0, 0),
        }
    }

    fn end(&self) -> u64 {
        self.base + self.messages.len() as u64
    }

    fn bytes(&self, from: u64, until: u64) -> Vec<u8> {
        let place = |offset: u64| usize::try_from(offset - self.base).expect("small");
        self.messages[place(from)..place(until)].concat()
    }

    /// An offset of the log, or its end.
    fn offset(&self, back: u64) -> u64 {
        self.end().saturating_sub(back).max(self.first)
    }

    fn visible(&self) -> u64 {
        self.host.log.visible_end().0
    }

    fn new_messages(&mut self, count: u64, length: usize) -> (Vec<Sent>, u64) {
        let messages = (0..count).map(|_| {
            self.number += 1;
            // An id of 0 would be replaced by a random one.
            sent(3 * self.number + 1, length)
        });
        let messages = messages.collect();
        (messages, self.host.now.0)
    }

    fn appended(&mut self, messages: &[Sent], timestamp: u64) {
        let base = self.end();
        for (offset, message) in (base..).zip(messages) {
            let message = std::slice::from_ref(message);
            self.messages.push(stamped(message, offset, timestamp));
        }
    }

    fn run(&mut self, step: Step) {
        let is_open = self.host.log.is_open();
        match step {
            Step::Append { count, length } if is_open => {
                let (messages, timestamp) = self.new_messages(count, length);
                let appended = self.host.append(&messages);
                assert_eq!(appended.base_offset, Offset(self.end()));
                self.appended(&messages, timestamp);
            }
            Step::Run {
                count,
                length,
                begins_segment,
                wrong,
            } if is_open => {
                let (messages, timestamp) = self.new_messages(count, length);
                let mut run = stamped(&messages, self.end(), timestamp);
                let mut place = self.host.log.end_place();
                if begins_segment {
                    (place.segment, place.position) = (place.base, 0);
                }
                let taken = u32::try_from(count).expect("few");
                if let Some(byte) = wrong {
                    let before = (self.host.log.end_place(), self.host.log.segments_count());
                    let byte = byte % run.len();
                    run[byte] ^= 1;
                    self.host
                        .append_run(place, &run, taken)
                        .expect_err("a wrong byte");
                    assert_eq!(
                        (self.host.log.end_place(), self.host.log.segments_count()),
                        before
                    );
                } else {
                    let appended = self.host.append_run(place, &run, taken).expect("valid");
                    assert_eq!(appended.base_offset, Offset(self.end()));
                    self.appended(&messages, timestamp);
                }
            }
            Step::Roll if is_open => self.host.log.roll(),
            Step::Commit { back } if is_open => {
                let end = self.end().saturating_sub(back);
                self.host.log.commit(Offset(end));
                self.committed = self.committed.max(end);
            }
            Step::Remove { count } if is_open => {
                self.host.log.delete_segments(count, None);
                let first = self.host.log.first_offset().0;
                assert!(self.first <= first && first <= self.end());
                assert!(!self.host.config.replicated || first <= self.committed);
                self.first = first;
            }
            Step::Truncate { back } if is_open => self.truncate(self.offset(back)),
            Step::StartAt { offset } if is_open => {
                self.note_certain();
                self.host.log.start_at(Offset(offset)).expect("begun");
                self.truncation = Some((offset, offset));
                self.host.end_of_turn();
            }
            Step::Read { back, count } => self.read(self.offset(back), count),
            Step::Digest { back, bytes_max } if is_open => {
                self.digest(self.offset(back), bytes_max);
            }
            Step::Flush { fsync } if is_open => self.host.log.flush(fsync),
            Step::Time { micros } => self.host.pass_without_settling(micros),
            Step::Disk { steps } => {
                self.host.end_of_turn();
                for _ in 0..steps {
                    self.host.step();
                }
            }
            Step::Settle => self.host.settle(),
            Step::EvictMemory => {
                while self.host.log.evict_oldest() > 0 {}
                self.host.log.unload_indexes();
            }
            Step::Restart => {
                let end = self.end();
                self.note_certain();
                self.certain = (end, end);
                assert_eq!(self.host.restart(), []);
                self.opened(Crash::Kill);
            }
            Step::Crash { power } => {
                let crash = if power { Crash::Power } else { Crash::Kill };
                self.note_certain();
                for notice in self.host.crash(crash) {
                    // A write was torn; nothing that was on the device is missing.
                    assert!(matches!(notice, Notice::Cut { .. }), "{notice}");
                }
                self.opened(crash);
            }
            _ => {}
        }
        self.check();
    }

    fn truncate(&mut self, end: u64) {
        self.note_certain();
        let result = self.host.log.truncate(Offset(end));
        if self.host.config.replicated && end < self.committed {
            let committed = self.host.log.committed_end();
            assert_eq!(result, Err(TruncateError::Committed { committed }));
        } else {
            assert_eq!(result, Ok(()));
            self.truncation = Some((self.first, end));
            self.host.end_of_turn();
        }
    }

    fn note_certain(&mut self) {
        if self.truncation.is_none() {
            let log = &self.host.log;
            self.certain = (log.written_end().0, log.synced_end().0);
        }
    }

    fn read(&mut self, from: u64, count: u32) {
        let visible = self.visible();
        let is_open = self.host.log.is_open();
        let messages = self.host.read(from, count).expect("intact");
        let bytes: Vec<u8> = messages
            .slices
            .iter()
            .flat_map(|slice| slice.to_vec())
            .collect();
        let until = from + u64::from(messages.messages_count);
        if is_open && self.host.log.is_open() {
            assert!(until == from || until <= self.visible());
            assert!(
                until > from || from >= visible || count == 0,
                "nothing at {from} of {visible}"
            );
        }
        if until > from {
            assert_eq!(bytes, self.bytes(from, until));
        }
    }

    fn digest(&mut self, from: u64, bytes_max: u64) {
        let until = self.visible().max(from);
        let mut digest = RangeDigest::new(Offset(from), Offset(until));
        while let Some((from, count)) = digest.next_read() {
            let messages = self.host.read_within(from, count, bytes_max.max(1_600));
            digest
                .take(&messages.expect("intact"))
                .expect("the next ones");
        }
        let bytes = self.bytes(from, until);
        assert_eq!(digest.result(), (bytes.len() as u64, xxh3_64(&bytes)));
    }

    /// Adopt what the log has after it was opened, if that is possible.
    fn opened(&mut self, crash: Crash) {
        let (first, end) = (
            self.host.log.first_offset().0,
            self.host.log.next_offset().0,
        );
        let certain = if crash == Crash::Power {
            self.certain.1
        } else {
            self.certain.0
        };
        match self.truncation.take() {
            Some(result) if (first, end) == result => self.truncated(result),
            // The removal of segments may be undone.
            Some((_, target)) if end == target && first <= self.first => {
                self.truncated((first, target));
            }
            _ => {
                assert!(
                    certain <= end && end <= self.end(),
                    "{certain}..{} became {end}",
                    self.end()
                );
                assert!(
                    self.base <= first && first <= self.first,
                    "{first}, not {}",
                    self.first
                );
                self.messages
                    .truncate(usize::try_from(end - self.base).expect("small"));
            }
        }
        self.first = first;
        // Messages that are visible again are committed, as far as the log knows.
        self.committed = first;
    }

    fn truncated(&mut self, (first, end): (u64, u64)) {
        if end < self.base || end > self.end() || first == end {
            self.messages.clear();
            self.base = end;
        }
        self.messages
            .truncate(usize::try_from(end - self.base).expect("small"));
        self.first = first;
        self.committed = self.committed.min(end).max(first);
    }

    fn check(&mut self) {
        if !self.host.log.is_open() {
            return;
        }
        if let Some(result) = self.truncation.take() {
            self.truncated(result);
        }
        let log = &self.host.log;
        assert_eq!(log.failure(), None);
        assert_eq!(
            (log.first_offset().0, log.next_offset().0),
            (self.first, self.end())
        );
        if self.host.config.replicated {
            assert_eq!(self.visible(), self.committed);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 5_000, ..ProptestConfig::default() })]

    /// CTL-3, LOG-1, LOG-11, LOG-15: the log of a replica is the list that its history says.
    #[test]
    fn the_log_of_a_replica_is_what_the_model_says(
        settings in settings(),
        steps in prop::collection::vec(steps(), 1..60),
        seed: u64,
    ) {
        let mut model = Model::new(settings, seed);
        for step in steps {
            model.run(step);
        }
        model.host.settle();
        model.check();
        let end = Offset(model.end());
        model.host.log.commit(end);
        model.committed = end.0;
        let (first, end) = (model.first, model.visible());
        prop_assert_eq!(model.host.contents(), model.bytes(first, end));
        model.run(Step::Restart);
        prop_assert_eq!(model.host.log.next_offset(), Offset(model.end()));
    }
}
