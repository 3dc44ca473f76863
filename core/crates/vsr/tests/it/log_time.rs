//! Log time: bounded by the clocks of a majority, and always advancing.

use headrace_buffer::Slice;
use headrace_vsr::api::{CommandReply, Config, Event, Now, Output, Proposal};
use headrace_vsr::clocks::Window;
use headrace_vsr::frame::{Operation, Release};
use headrace_vsr::replica::Replica;
use headrace_vsr::rules::Standard;
use headrace_vsr::superblock::Superblock;
use headrace_vsr::timeouts::Timeouts;

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;
const EPOCH: u64 = 1_700_000_000 * SECOND;

/// Group of one whose host controls the time window.
struct Alone {
    replica: Replica,
    tickets: u64,
}

impl Alone {
    fn new() -> Self {
        let config = Config {
            cluster: 1,
            group: 1,
            replica: 0,
            replica_count: 1,
            release: Release::new(1, 0, 0),
            timeouts: Timeouts::default(),
            request_queue_max: 2,
            batch_bytes_max: 1_000,
            batch_requests_max: 1,
            unstored_bytes_max: 1 << 20,
            checkpoint_ops: 1_000,
            checkpoint_bytes: 1 << 30,
            log_keep_ops: 10,
            clients_max: 4,
            chunk_bytes: 1_000,
            seed: 1,
        };
        let superblock = Superblock::new(1, 1, 1, 0, vec![1], 0);
        let (now, mut out) = (Now::default(), Vec::new());
        let replica = Replica::open(config, Standard, superblock, &[], &[], now, &mut out).unwrap();
        let mut alone = Self {
            replica,
            tickets: 0,
        };
        alone.serve(now, out);
        alone
    }

    /// Carry out all outputs at once. Returns the timestamps of the executed operations.
    fn serve(&mut self, now: Now, mut out: Vec<Output>) -> Vec<u64> {
        let mut stamps = Vec::new();
        while !out.is_empty() {
            let events: Vec<Event> = std::mem::take(&mut out)
                .into_iter()
                .filter_map(|output| match output {
                    Output::Append { token, .. } => Some(Event::Appended { token }),
                    Output::Superblock { token, .. } => Some(Event::SuperblockWritten { token }),
                    Output::Apply(operation) => {
                        stamps.push(operation.timestamp_ns);
                        Some(Event::Applied {
                            op: operation.op,
                            replies: vec![CommandReply::default()],
                        })
                    }
                    Output::Fatal(reason) => panic!("{reason}"),
                    _ => None,
                })
                .collect();
            self.replica.step(now, events, &mut out);
        }
        stamps
    }

    /// Timestamp of a command that is proposed at this second of the monotonic clock.
    fn stamp(&mut self, second: u64, wall: Window) -> Vec<u64> {
        let now = Now {
            monotonic_ns: second * SECOND,
            wall,
        };
        self.tickets += 1;
        let proposal = Event::Propose(Proposal {
            request_id: self.tickets,
            operation: Operation::METADATA_FIRST,
            user_id: 0,
            min_release: Release::FIRST,
            body: Slice::default(),
        });
        let mut out = Vec::new();
        self.replica.step(now, [proposal], &mut out);
        self.serve(now, out)
    }
}

fn between(earliest_ns: u64, latest_ns: u64) -> Window {
    Window {
        earliest_ns,
        latest_ns,
    }
}

#[test]
fn where_clocks_disagree_the_log_goes_on_by_the_monotonic_one() {
    let mut alone = Alone::new();
    let first = alone.stamp(1, Window::exact(EPOCH));
    assert_eq!(first, [EPOCH]);
    let open = |second: u64| {
        between(
            EPOCH + second * SECOND - HOUR,
            EPOCH + second * SECOND + HOUR,
        )
    };
    assert_eq!(alone.stamp(5, open(5)), [EPOCH + 4 * SECOND]);
    assert_eq!(alone.stamp(9, open(9)), [EPOCH + 8 * SECOND]);
    // A time that all clocks have passed lies in the past for the log too.
    let late = EPOCH + 10 * HOUR;
    assert_eq!(alone.stamp(10, between(late, late + HOUR)), [late]);
}

#[test]
fn a_log_that_is_ahead_goes_on_at_half_speed_until_clocks_have_caught_up() {
    let mut alone = Alone::new();
    assert_eq!(
        alone.stamp(1, Window::exact(EPOCH + 60 * SECOND)),
        [EPOCH + 60 * SECOND]
    );
    // The clock is set back by a minute. A lease of 30 s expires after 60 s, not after 90.
    let at = |second: u64| Window::exact(EPOCH + second * SECOND);
    assert_eq!(alone.stamp(61, at(60)), [EPOCH + 90 * SECOND]);
    assert_eq!(alone.stamp(61, at(60)), [EPOCH + 90 * SECOND + 1]);
    let caught_up = alone.stamp(300, at(299));
    assert_eq!(caught_up, [EPOCH + 299 * SECOND]);
}

#[test]
fn commands_wait_until_the_time_is_known_and_not_too_many_of_them() {
    let mut alone = Alone::new();
    assert_eq!(alone.stamp(1, Window::UNKNOWN), []);
    assert_eq!(alone.stamp(2, Window::UNKNOWN), []);
    let (mut out, now) = (
        Vec::new(),
        Now {
            monotonic_ns: 3 * SECOND,
            wall: Window::UNKNOWN,
        },
    );
    let third = Event::Propose(Proposal {
        request_id: 99,
        operation: Operation::METADATA_FIRST,
        user_id: 0,
        min_release: Release::FIRST,
        body: Slice::default(),
    });
    alone.replica.step(now, [third], &mut out);
    assert!(
        matches!(
            out.as_slice(),
            [Output::Proposed {
                request_id: 99,
                outcome: headrace_vsr::api::Outcome::Busy
            }]
        ),
        "{out:?}"
    );
    let stamps = alone.stamp(4, Window::exact(EPOCH));
    assert_eq!(stamps, [EPOCH, EPOCH + 1, EPOCH + 2]);
}
