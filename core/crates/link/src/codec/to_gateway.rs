//! Encoding of the frames that a partition node sends.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU16;

use headrace_buffer::{Buffer, Slice};
use headrace_model::{NodeId, Offset};
use headrace_partition::{Gap, Polled, Response, StoredOffset};
use headrace_wire::Malformed;

use super::fields::Fields;
use super::reader::Reader;
use super::{DecodeError, begin, finish, layouts, refusals};
use crate::{RequestId, StatisticsSnapshot, ToGateway};

const WELCOME: u32 = 11_101;
const ANSWER: u32 = 11_102;
const READY: u32 = 11_103;
const STATE_CHANGED: u32 = 11_104;
const WRONG_NODE: u32 = 11_105;
const NOT_WATCHED: u32 = 11_106;
const STATISTICS: u32 = 11_107;

const POLLED: u8 = 2;
const NO_OFFSET: u8 = 4;
const OFFSET: u8 = 5;

/// Maximum number of payload bytes of most frames.
const USUAL_BYTES: usize = 48;
/// Bytes of the statistics of one partition.
const STATISTICS_BYTES: usize = 95;

/// A parsed frame, without the messages of a response.
enum Parsed {
    Polled {
        call: RequestId,
        polled: Polled,
        /// Start of the messages in the payload.
        start: usize,
    },
    Complete(ToGateway),
}

impl ToGateway {
    /// Encode the frame. The first slice is newly written, the others are the messages, shared.
    ///
    /// # Panics
    /// If the messages have 4 GiB or more.
    pub fn encode(self) -> Vec<Slice> {
        let mut head = begin(USUAL_BYTES);
        let code = match self {
            Self::Welcome {
                catalog_version,
                node,
                shards,
            } => {
                head.u64(catalog_version);
                head.u32(node.0);
                head.u16(shards.get());
                WELCOME
            }
            Self::Answer {
                call,
                result: Ok(Response::Polled(polled)),
            } => return encode_polled(head, call, polled),
            Self::Answer { call, result } => {
                head.call(call);
                match result {
                    Ok(response) => write_response(&mut head, &response),
                    Err(refusal) => refusals::write(&mut head, &refusal),
                }
                ANSWER
            }
            Self::PollReady { call } => {
                head.call(call);
                READY
            }
            Self::StateChanged { namespace, view } => {
                head.namespace(namespace);
                head.view(&view);
                head.openings(&view.openings);
                STATE_CHANGED
            }
            Self::WrongNode { call, version } => {
                head.call(call);
                head.u64(version);
                WRONG_NODE
            }
            Self::NotWatched { namespace, version } => {
                head.namespace(namespace);
                head.u64(version);
                NOT_WATCHED
            }
            Self::Statistics {
                call,
                partitions: statistics,
            } => {
                head.reserve(statistics.len() * STATISTICS_BYTES);
                head.call(call);
                for statistics in &statistics {
                    write_statistics(&mut head, statistics);
                }
                STATISTICS
            }
        };
        vec![finish(code, head, 0)]
    }

    /// Decode a payload that lies in a receive buffer. Messages are copied.
    pub fn decode(code: u32, payload: &[u8]) -> Result<Self, DecodeError> {
        Ok(match parse(code, payload)? {
            Parsed::Polled {
                call,
                polled,
                start,
            } => {
                let messages = &payload[start..];
                with_messages(call, polled, || Slice::from_vec(messages.to_vec()))
            }
            Parsed::Complete(frame) => frame,
        })
    }

    /// Decode a payload that has a buffer of its own. Messages stay in that buffer.
    pub fn decode_owned(code: u32, payload: Buffer) -> Result<Self, DecodeError> {
        Ok(match parse(code, &payload)? {
            Parsed::Polled {
                call,
                polled,
                start,
            } => with_messages(call, polled, || payload.freeze().slice(start..)),
            Parsed::Complete(frame) => frame,
        })
    }
}

fn with_messages(
    call: RequestId,
    mut polled: Polled,
    messages: impl FnOnce() -> Slice,
) -> ToGateway {
    if polled.size_bytes > 0 {
        polled.slices.push(messages());
    }
    ToGateway::Answer {
        call,
        result: Ok(Response::Polled(polled)),
    }
}

fn encode_polled(mut head: Vec<u8>, call: RequestId, polled: Polled) -> Vec<Slice> {
    head.call(call);
    head.u8(POLLED);
    head.u64(polled.current_offset.0);
    head.u64(polled.last_offset.map_or(0, |offset| offset.0));
    head.u64(polled.gap.map_or(0, |gap| gap.from.0));
    head.u64(polled.gap.map_or(0, |gap| gap.to.0));
    head.u32(polled.messages_count);
    let messages_bytes = usize::try_from(polled.size_bytes).expect("it is in memory");
    debug_assert_eq!(
        polled.slices.iter().map(Slice::len).sum::<usize>(),
        messages_bytes,
        "the slices are what they say"
    );
    let mut slices = Vec::with_capacity(1 + polled.slices.len());
    slices.push(finish(ANSWER, head, messages_bytes));
    slices.extend(polled.slices);
    slices
}

fn write_response(head: &mut Vec<u8>, response: &Response) {
    match response {
        Response::Offset(None) => head.u8(NO_OFFSET),
        Response::Offset(Some(offset)) => {
            head.u8(OFFSET);
            head.u64(offset.current.0);
            head.u64(offset.stored.0);
        }
        Response::Polled(_) => unreachable!("its slices follow the head"),
        response => layouts::write_response(head, response),
    }
}

fn write_statistics(head: &mut Vec<u8>, statistics: &StatisticsSnapshot) {
    head.namespace(statistics.namespace);
    head.u64(statistics.incarnation);
    head.u64(statistics.purge_epoch);
    head.u64(statistics.messages_count);
    head.u64(statistics.size_bytes);
    head.u32(statistics.segments_count);
    head.u64(statistics.current_offset.0);
    head.u64(statistics.first_offset.0);
    head.u64(statistics.unsynced_bytes);
    head.bool(statistics.failed);
    head.u64(statistics.oldest_segment_timestamp);
    head.u64(statistics.removed_segments);
    head.u64(statistics.removed_bytes);
    head.bool(statistics.retention_held);
    head.bool(statistics.is_cleaned);
}

fn parse(code: u32, payload: &[u8]) -> Result<Parsed, DecodeError> {
    if !(WELCOME..=STATISTICS).contains(&code) {
        return Err(DecodeError::UnknownFrame(code));
    }
    let mut reader = Reader::new(payload);
    let parsed = match code {
        ANSWER => read_answer(&mut reader, payload.len()),
        _ => read_other(code, &mut reader).map(Parsed::Complete),
    };
    let rest = match &parsed {
        Ok(Parsed::Complete(_)) => reader.finish(),
        _ => Ok(()),
    };
    rest.and(parsed)
        .map_err(|reason| DecodeError::Malformed { code, reason })
}

fn read_answer(reader: &mut Reader<'_>, payload_bytes: usize) -> Result<Parsed, Malformed> {
    let call = reader.call()?;
    let result = match reader.u8()? {
        POLLED => {
            let polled = read_polled(reader)?;
            return Ok(Parsed::Polled {
                call,
                polled,
                start: payload_bytes - reader.remaining(),
            });
        }
        NO_OFFSET => Ok(Response::Offset(None)),
        OFFSET => Ok(Response::Offset(Some(StoredOffset {
            current: reader.offset()?,
            stored: reader.offset()?,
        }))),
        code if code >= refusals::FIRST => Err(refusals::read(code, reader)?),
        code => Ok(layouts::read_response(code, reader)?),
    };
    Ok(Parsed::Complete(ToGateway::Answer { call, result }))
}

/// Read the header of polled messages and check it against the number of bytes that follow.
fn read_polled(reader: &mut Reader<'_>) -> Result<Polled, Malformed> {
    let current_offset = reader.offset()?;
    let last_offset = reader.offset()?;
    let gap = read_gap(reader)?;
    let messages_count = reader.u32()?;
    let size_bytes = reader.remaining() as u64;
    let bytes_least = u64::from(messages_count) * headrace_wire::message::HEADER_BYTES as u64;
    let is_empty = messages_count == 0;
    if size_bytes < bytes_least || is_empty != (size_bytes == 0) {
        return Err(Malformed::CountMismatch);
    }
    if is_empty && last_offset != Offset(0) {
        return Err(Malformed::ReservedNotZero);
    }
    Ok(Polled {
        current_offset,
        last_offset: (!is_empty).then_some(last_offset),
        messages_count,
        slices: Vec::new(),
        size_bytes,
        gap,
    })
}

/// Read a gap; both ends are 0 if there is none.
fn read_gap(reader: &mut Reader<'_>) -> Result<Option<Gap>, Malformed> {
    let (from, to) = (reader.offset()?, reader.offset()?);
    match (from, to) {
        (Offset(0), Offset(0)) => Ok(None),
        _ if from < to => Ok(Some(Gap { from, to })),
        _ => Err(Malformed::CountMismatch),
    }
}

fn read_other(code: u32, reader: &mut Reader<'_>) -> Result<ToGateway, Malformed> {
    Ok(match code {
        WELCOME => ToGateway::Welcome {
            catalog_version: reader.u64()?,
            node: NodeId(reader.u32()?),
            shards: NonZeroU16::new(reader.u16()?).ok_or(Malformed::UnknownCode(0))?,
        },
        READY => ToGateway::PollReady {
            call: reader.call()?,
        },
        STATE_CHANGED => ToGateway::StateChanged {
            namespace: reader.namespace()?,
            view: reader.view_with_openings()?,
        },
        WRONG_NODE => ToGateway::WrongNode {
            call: reader.call()?,
            version: reader.u64()?,
        },
        NOT_WATCHED => ToGateway::NotWatched {
            namespace: reader.namespace()?,
            version: reader.u64()?,
        },
        _ => {
            let call = reader.call()?;
            let mut statistics = Vec::with_capacity(reader.remaining() / STATISTICS_BYTES);
            while reader.remaining() > 0 {
                statistics.push(read_statistics(reader)?);
            }
            ToGateway::Statistics {
                call,
                partitions: statistics,
            }
        }
    })
}

fn read_statistics(reader: &mut Reader<'_>) -> Result<StatisticsSnapshot, Malformed> {
    Ok(StatisticsSnapshot {
        namespace: reader.namespace()?,
        incarnation: reader.u64()?,
        purge_epoch: reader.u64()?,
        messages_count: reader.u64()?,
        size_bytes: reader.u64()?,
        segments_count: reader.u32()?,
        current_offset: reader.offset()?,
        first_offset: reader.offset()?,
        unsynced_bytes: reader.u64()?,
        failed: reader.bool()?,
        oldest_segment_timestamp: reader.u64()?,
        removed_segments: reader.u64()?,
        removed_bytes: reader.u64()?,
        retention_held: reader.bool()?,
        is_cleaned: reader.bool()?,
    })
}
