//! What a sampled request leaves behind on its way: records of a fixed size in a ring of a fixed size.
//!
//! Two for each request, which belong together by [`Key`]: one of its connection, and one of the partition that it went
//! to. Whoever embeds the node takes them and makes spans of them. A full ring drops what comes next, and counts it.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use crossbeam_queue::ArrayQueue;
use headrace_model::{Namespace, ShardId};
use headrace_wire::{
    CommandCode,
    headers::{self, Value},
    message::MessageView,
};

/// Records that wait to be taken from one shard.
const CAPACITY: usize = 4096;
/// The user header with the context of a trace.
const HEADER: &str = "traceparent";
/// In the flags of a context: it is recorded.
const SAMPLED: u8 = 1;

/// Where a trace comes from: a context of the W3C's recommendation, version 00.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// Not 0.
    pub trace_id: u128,
    /// The span that the next one is a part of; not 0.
    pub span_id: u64,
}

impl TraceContext {
    /// Read `00-<32 hexadecimal digits>-<16>-<2>`. `None`: it is something else, or is not to be recorded.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut next = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let is_hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            part.bytes().all(is_hexadecimal).then_some(part)
        };
        let (version, trace_id, span_id, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        // A later version may have more parts; this one has not, and ff is none.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let flags = u8::from_str_radix(flags, 16).ok()?;
        Self::sampled(
            u128::from_str_radix(trace_id, 16).ok()?,
            u64::from_str_radix(span_id, 16).ok()?,
            flags,
        )
    }

    /// A context whose parts came by themselves.
    pub(crate) fn sampled(trace_id: u128, span_id: u64, flags: u8) -> Option<Self> {
        let is_one = trace_id != 0 && span_id != 0 && flags & SAMPLED != 0;
        is_one.then_some(Self { trace_id, span_id })
    }

    /// In the user headers of the first of `messages`, which were validated.
    pub(crate) fn of_first(messages: &[u8]) -> Option<Self> {
        let (first, _) = MessageView::split_first(messages).ok()?;
        let pair = headers::pairs(first.user_headers())
            .map_while(Result::ok)
            .find(|pair| pair.key.value() == Ok(Value::Text(HEADER)))?;
        match pair.value.value() {
            Ok(Value::Text(text)) => Self::parse(text),
            Ok(Value::Raw(bytes)) => Self::parse(core::str::from_utf8(bytes).ok()?),
            _ => None,
        }
    }
}

/// What the two records of a request have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The shard of its connection.
    pub shard: ShardId,
    /// Counted by that shard.
    pub request: NonZeroU32,
}

/// A request at its connection. Times are microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTrace {
    /// Which.
    pub key: Key,
    /// Whose part it is.
    pub context: TraceContext,
    /// `None`: what came is no command.
    pub command: Option<CommandCode>,
    /// It was read and started.
    pub began: u64,
    /// Its answer was ready to be sent.
    pub ended: u64,
    /// Of the answer; 0 is success.
    pub status: u32,
    /// Of a batch.
    pub bytes: u64,
}

/// The same request at its partition. Times are microseconds since the Unix epoch; 0: it did not happen before the
/// answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionTrace {
    /// Which.
    pub key: Key,
    /// The shard that owns the partition.
    pub owner: ShardId,
    /// The partition.
    pub namespace: Namespace,
    /// It is a batch, whose messages are stored.
    pub is_append: bool,
    /// It reached the partition.
    pub began: u64,
    /// The write was started that its messages are part of.
    pub issued: u64,
    /// Its messages were in the log file.
    pub written: u64,
    /// Its messages were on the device.
    pub synced: u64,
    /// It was answered.
    pub ended: u64,
    /// Whether as it was asked for.
    pub is_fulfilled: bool,
    /// Appended or read.
    pub messages_count: u32,
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceRecord {
    /// Of a connection.
    Request(RequestTrace),
    /// Of a partition.
    Partition(PartitionTrace),
}

/// The records of one shard.
#[derive(Debug, Default)]
pub struct Tracer {
    /// `None`: nothing is recorded.
    ring: Option<ArrayQueue<TraceRecord>>,
    dropped: AtomicU64,
    last: AtomicU32,
}

impl Tracer {
    /// Records, if wanted.
    pub(crate) fn new(is_on: bool) -> Self {
        Self {
            ring: is_on.then(|| ArrayQueue::new(CAPACITY)),
            ..Self::default()
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.ring.is_some()
    }

    /// The number of one more request that is traced.
    pub(crate) fn next(&self) -> NonZeroU32 {
        let next = NonZeroU32::new(self.last.load(Relaxed).wrapping_add(1));
        let next = next.unwrap_or(NonZeroU32::MIN);
        self.last.store(next.get(), Relaxed);
        next
    }

    pub(crate) fn record(&self, record: TraceRecord) {
        if let Some(ring) = &self.ring
            && ring.push(record).is_err()
        {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Everything that waits, oldest first.
    pub fn take(&self) -> Vec<TraceRecord> {
        let ring = self.ring.iter();
        // What comes meanwhile is for the next time.
        ring.flat_map(|ring| (0..ring.len()).map_while(|_| ring.pop()))
            .collect()
    }

    /// Records for which there was no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn contexts_are_read_as_they_are_written() {
        let context = TraceContext::parse(CONTEXT).expect("well-formed");
        assert_eq!(context.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(context.span_id, 0x00f0_67aa_0ba9_02b7);
        let later = format!("01{}-more", &CONTEXT[2..]);
        assert_eq!(TraceContext::parse(&later), Some(context));
        for wrong in [
            "",
            "00",
            &format!("{CONTEXT}-more"),
            &format!("ff{}", &CONTEXT[2..]),
            &CONTEXT.to_uppercase(),
            &CONTEXT.replace("-01", "-00"),
            &CONTEXT.replace("00f067aa0ba902b7", "0000000000000000"),
            &CONTEXT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &CONTEXT.replace('b', "+"),
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_full_ring_drops_and_counts() {
        let record = TraceRecord::Request(RequestTrace {
            key: Key {
                shard: ShardId(0),
                request: NonZeroU32::MIN,
            },
            context: TraceContext::parse(CONTEXT).expect("well-formed"),
            command: Some(CommandCode::Ping),
            began: 1,
            ended: 2,
            status: 0,
            bytes: 0,
        });
        let tracer = Tracer::new(true);
        for _ in 0..CAPACITY + 3 {
            tracer.record(record);
        }
        assert_eq!(tracer.dropped(), 3);
        assert_eq!(tracer.take().len(), CAPACITY);
        assert!(tracer.take().is_empty());
        let off = Tracer::new(false);
        off.record(record);
        assert!(off.take().is_empty());
        assert_eq!(off.dropped(), 0);
    }

    #[test]
    fn numbers_are_never_zero() {
        let tracer = Tracer::new(true);
        assert_eq!(tracer.next().get(), 1);
        tracer.last.store(u32::MAX, Relaxed);
        assert_eq!(tracer.next().get(), 1);
    }
}
