//! Digests of ranges, by which replicas compare what they have stored.

use headrace_log::{LogConfig, MissingMessage, RangeDigest};
use headrace_model::{Durability, Offset};
use headrace_partition::ReadError;
use headrace_wire::hash::xxh3_64;

use crate::support::log_host::LogHost;
use crate::support::messages::sent;
use crate::support::world::config;

const MESSAGE_BYTES: usize = 64 + 1000;

/// Thirty messages, five to a segment, the last ones in memory.
fn log() -> LogHost {
    let mut host = LogHost::new(LogConfig {
        segment_size_bytes: 5_000,
        tail_cache_bytes: 4_096,
        ..config(Durability::Os)
    });
    for number in 0..30 {
        host.append(&[sent(3 * number + 1, 1000)]);
        host.settle();
    }
    host
}

/// CTL-3: the digest is the hash of the stored bytes, whatever the steps in which it is made.
#[test]
fn a_digest_is_the_hash_of_the_bytes() {
    let mut host = log();
    let contents = host.contents();
    for (start, end) in [(0, 30), (0, 1), (3, 17), (5, 10), (29, 30), (7, 7)] {
        let range = start * MESSAGE_BYTES..end * MESSAGE_BYTES;
        let expected = (range.len() as u64, xxh3_64(&contents[range]));
        for bytes_max in [MESSAGE_BYTES, 5_000, 1 << 20] {
            let mut digest = RangeDigest::new(Offset(start as u64), Offset(end as u64));
            while let Some((from, count)) = digest.next_read() {
                let messages = host.read_within(from, count, bytes_max as u64);
                let messages = messages.expect("intact");
                assert!(messages.size_bytes <= bytes_max as u64);
                digest.take(&messages).expect("the next ones");
            }
            assert_eq!(digest.result(), expected);
        }
    }
}

/// CTL-3: a range that is not whole has no digest.
#[test]
fn a_digest_has_no_gaps() {
    let mut host = log();
    host.log.delete_segments(1, None);
    host.settle();
    for (start, end, missing) in [(4, 30, 4), (28, 31, 30)] {
        let mut digest = RangeDigest::new(Offset(start), Offset(end));
        let mut result = Ok(());
        while let Some((from, count)) = digest.next_read()
            && result.is_ok()
        {
            let messages = host.read_within(from, count, 1 << 20).expect("intact");
            result = digest.take(&messages);
        }
        let offset = Offset(missing);
        assert_eq!(result, Err(MissingMessage { offset }));
    }
    let digest = RangeDigest::new(Offset(6), Offset(9));
    let (from, count) = digest.next_read().expect("it has a message");
    let bytes = MESSAGE_BYTES as u64;
    let refused = host.read_within(from, count, bytes - 1);
    assert_eq!(refused, Err(ReadError::TooLarge { bytes }));
}
