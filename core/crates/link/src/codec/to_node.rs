//! Encoding of the frames that a gateway sends.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use headrace_buffer::{Buffer, Slice};
use headrace_model::{StageId, StreamId, TopicId};
use headrace_partition::{Batch, Request};
use headrace_wire::Malformed;

use super::fields::Fields;
use super::reader::Reader;
use super::{DecodeError, begin, finish, layouts};
use crate::{CallHeader, EndWait, RequestId, Scope, ToNode, WhenReady};

const REQUEST: u32 = 11_001;
const WAIT: u32 = 11_002;
const STOP_WAITING: u32 = 11_003;
const WATCH: u32 = 11_004;
const UNWATCH: u32 = 11_005;
const STATISTICS: u32 = 11_006;
const CATALOG_VERSION: u32 = 11_007;

const APPEND: u8 = 1;
const POLL: u8 = 2;
const STORE_OFFSET: u8 = 4;
const DELETE_OFFSET: u8 = 5;
const STAGE: u8 = 9;

/// Maximum number of bytes of the payload of a request before its messages.
pub const MESSAGES_HEAD_BYTES_MAX: usize = 8 + 24 + 1 + 28 + 24 + 1 + 16 + 8 + 4 + 1 + 4;

/// Size up to which messages are copied behind the head: a separate slice costs more than the copy.
const INLINE_BYTES_MAX: usize = 4096;

/// A frame decoded in place in a receive buffer.
#[derive(Debug)]
pub enum SmallToNode<'a> {
    /// Request to append.
    Append {
        /// Head of the request.
        header: CallHeader,
        /// Messages, in place.
        messages: &'a mut [u8],
        /// Announced number of messages.
        messages_count: u32,
    },
    /// Any other frame.
    Other(ToNode),
}

impl SmallToNode<'_> {
    /// Convert to a frame that does not borrow from the receive buffer.
    pub fn into_owned(self) -> ToNode {
        match self {
            Self::Append {
                header,
                messages,
                messages_count,
            } => {
                let batch = Batch::copied(messages, messages_count);
                ToNode::Request {
                    header,
                    request: Request::Append { batch },
                }
            }
            Self::Other(frame) => frame,
        }
    }
}

/// A parsed frame, without the messages of a batch.
enum Parsed {
    Append {
        header: CallHeader,
        messages_count: u32,
        /// Start of the messages in the payload.
        start: usize,
    },
    Stage {
        header: CallHeader,
        head: StageHead,
        /// Start of the messages in the payload.
        start: usize,
    },
    Whole(ToNode),
}

/// Chunk of a stage, without its messages.
struct StageHead {
    stage: Option<StageId>,
    lifetime_micros: u64,
    chunk: u32,
    is_last: bool,
    messages_count: u32,
}

impl StageHead {
    fn request(&self, buffer: Buffer, messages: Range<usize>) -> Request {
        Request::Stage {
            stage: self.stage,
            lifetime_micros: self.lifetime_micros,
            chunk: self.chunk,
            is_last: self.is_last,
            batch: Batch::new(buffer, messages, self.messages_count),
        }
    }
}

fn write_header(head: &mut Vec<u8>, header: &CallHeader) {
    head.call(header.call);
    head.place(header.place);
    head.requester(header.member, header.trace);
}

fn read_header(reader: &mut Reader<'_>) -> Result<CallHeader, Malformed> {
    let (call, place) = (reader.call()?, reader.place()?);
    let (member, trace) = reader.requester()?;
    Ok(CallHeader {
        call,
        place,
        member,
        trace,
    })
}

impl ToNode {
    /// Number of bytes at the beginning of a request's payload that name its call.
    pub const CALL_BYTES: usize = 8;

    /// Decode the call of a request from the beginning of its payload, to refuse a request that is not received.
    pub fn call_of(code: u32, beginning: &[u8]) -> Result<RequestId, DecodeError> {
        if code != REQUEST {
            return Err(DecodeError::UnknownFrame(code));
        }
        (Reader::new(beginning).call()).map_err(|reason| DecodeError::Malformed { code, reason })
    }

    /// Encode the frame. The first slice is newly written; the second one, absent if the messages are small, is the
    /// messages, shared. A clone of the slices can be sent again.
    ///
    /// # Panics
    /// If the messages have 4 GiB or more.
    pub fn encode(self) -> Vec<Slice> {
        let mut head = begin(MESSAGES_HEAD_BYTES_MAX);
        let code = match self {
            Self::Request { header, request } => {
                write_header(&mut head, &header);
                match write_request(&mut head, request) {
                    None => {}
                    Some(messages) if messages.len() <= INLINE_BYTES_MAX => {
                        head.extend_from_slice(&messages);
                    }
                    Some(messages) => {
                        return vec![finish(REQUEST, head, messages.len()), messages];
                    }
                }
                REQUEST
            }
            Self::Wait {
                header,
                poll,
                when_ready,
            } => {
                let trace = None;
                write_header(&mut head, &CallHeader { trace, ..header });
                head.u8(match when_ready {
                    WhenReady::Answer => 1,
                    WhenReady::AnswerNow => 2,
                    WhenReady::Notify => 3,
                });
                head.poll(&poll);
                WAIT
            }
            Self::EndWait {
                call,
                namespace,
                reaction: stop,
            } => {
                head.call(call);
                head.namespace(namespace);
                head.u8(match stop {
                    EndWait::Take => 1,
                    EndWait::Refuse => 2,
                    EndWait::Cancel => 3,
                });
                STOP_WAITING
            }
            Self::Watch {
                place,
                last_state: seen,
                wants_openings,
            } => {
                head.place(place);
                head.u8(u8::from(seen.is_some()) | u8::from(wants_openings) << 1);
                if let Some(view) = seen {
                    head.view(&view);
                    if wants_openings {
                        head.u64(view.epoch);
                    }
                }
                WATCH
            }
            Self::Unwatch { namespace } => {
                head.namespace(namespace);
                UNWATCH
            }
            Self::Statistics { call, scope } => {
                head.call(call);
                let (kind, stream, topic) = match scope {
                    Scope::All => (1, 0, 0),
                    Scope::Stream(stream) => (2, stream.0, 0),
                    Scope::Topic(stream, topic) => (3, stream.0, topic.0),
                };
                head.u8(kind);
                head.u32(stream);
                head.u32(topic);
                STATISTICS
            }
            Self::CatalogVersion(version) => {
                head.u64(version);
                CATALOG_VERSION
            }
        };
        vec![finish(code, head, 0)]
    }

    /// Decode a payload that lies in a receive buffer.
    pub fn decode(code: u32, payload: &mut [u8]) -> Result<SmallToNode<'_>, DecodeError> {
        Ok(match parse(code, payload)? {
            Parsed::Append {
                header,
                messages_count,
                start,
            } => SmallToNode::Append {
                header,
                messages: &mut payload[start..],
                messages_count,
            },
            Parsed::Stage {
                header,
                head,
                start,
            } => {
                let messages = Buffer::unpooled(&payload[start..]);
                let range = 0..messages.len();
                SmallToNode::Other(ToNode::Request {
                    header,
                    request: head.request(messages, range),
                })
            }
            Parsed::Whole(frame) => SmallToNode::Other(frame),
        })
    }

    /// Decode a payload that has a buffer of its own. Messages stay in that buffer.
    pub fn decode_owned(code: u32, payload: Buffer) -> Result<Self, DecodeError> {
        Ok(match parse(code, &payload)? {
            Parsed::Append {
                header,
                messages_count,
                start,
            } => {
                let range = start..payload.len();
                Self::Request {
                    header,
                    request: Request::Append {
                        batch: Batch::new(payload, range, messages_count),
                    },
                }
            }
            Parsed::Stage {
                header,
                head,
                start,
            } => {
                let range = start..payload.len();
                Self::Request {
                    header,
                    request: head.request(payload, range),
                }
            }
            Parsed::Whole(frame) => frame,
        })
    }
}

/// Append the request. Returns the messages of a batch, which follow the written bytes.
fn write_request(head: &mut Vec<u8>, request: Request) -> Option<Slice> {
    match request {
        Request::Append { batch } => {
            head.u8(APPEND);
            head.u32(batch.messages_count());
            return Some(batch.freeze());
        }
        Request::Poll(poll) => {
            head.u8(POLL);
            head.poll(&poll);
        }
        Request::StoreOffset {
            consumer,
            offset,
            by,
        } => {
            head.u8(STORE_OFFSET);
            head.consumer(Some(consumer), by);
            head.u64(offset.0);
        }
        Request::DeleteOffset { consumer, by } => {
            head.u8(DELETE_OFFSET);
            head.consumer(Some(consumer), by);
        }
        Request::Stage {
            stage,
            lifetime_micros,
            chunk,
            is_last,
            batch,
        } => {
            head.u8(STAGE);
            head.u128(stage.map_or(0, |stage| stage.0));
            head.u64(lifetime_micros);
            head.u32(chunk);
            head.bool(is_last);
            head.u32(batch.messages_count());
            return Some(batch.freeze());
        }
        request => layouts::write_request(head, &request),
    }
    None
}

fn parse(code: u32, payload: &[u8]) -> Result<Parsed, DecodeError> {
    if !(REQUEST..=CATALOG_VERSION).contains(&code) {
        return Err(DecodeError::UnknownFrame(code));
    }
    let mut reader = Reader::new(payload);
    let parsed = match code {
        REQUEST => read_request(&mut reader, payload.len()),
        WAIT => read_wait(&mut reader).map(Parsed::Whole),
        _ => read_other(code, &mut reader).map(Parsed::Whole),
    };
    let rest = match &parsed {
        Ok(Parsed::Whole(_)) => reader.finish(),
        _ => Ok(()),
    };
    rest.and(parsed)
        .map_err(|reason| DecodeError::Malformed { code, reason })
}

fn read_request(reader: &mut Reader<'_>, payload_bytes: usize) -> Result<Parsed, Malformed> {
    let header = read_header(reader)?;
    let request = match reader.u8()? {
        APPEND => {
            return Ok(Parsed::Append {
                header,
                messages_count: reader.u32()?,
                start: payload_bytes - reader.remaining(),
            });
        }
        POLL => Request::Poll(reader.poll()?),
        STORE_OFFSET => {
            let (consumer, by) = reader.changed_consumer()?;
            Request::StoreOffset {
                consumer,
                offset: reader.offset()?,
                by,
            }
        }
        DELETE_OFFSET => {
            let (consumer, by) = reader.changed_consumer()?;
            Request::DeleteOffset { consumer, by }
        }
        STAGE => {
            let stage = reader.u128()?;
            let head = StageHead {
                stage: (stage != 0).then_some(StageId(stage)),
                lifetime_micros: reader.u64()?,
                chunk: reader.u32()?,
                is_last: reader.bool()?,
                messages_count: reader.u32()?,
            };
            return Ok(Parsed::Stage {
                header,
                head,
                start: payload_bytes - reader.remaining(),
            });
        }
        kind => layouts::read_request(kind, reader)?,
    };
    Ok(Parsed::Whole(ToNode::Request { header, request }))
}

fn read_wait(reader: &mut Reader<'_>) -> Result<ToNode, Malformed> {
    let header = read_header(reader)?;
    if header.trace.is_some() {
        return Err(Malformed::ReservedNotZero);
    }
    let when_ready = match reader.u8()? {
        1 => WhenReady::Answer,
        2 => WhenReady::AnswerNow,
        3 => WhenReady::Notify,
        code => return Err(Malformed::UnknownCode(code)),
    };
    Ok(ToNode::Wait {
        header,
        poll: reader.poll()?,
        when_ready,
    })
}

fn read_other(code: u32, reader: &mut Reader<'_>) -> Result<ToNode, Malformed> {
    Ok(match code {
        STOP_WAITING => ToNode::EndWait {
            call: reader.call()?,
            namespace: reader.namespace()?,
            reaction: match reader.u8()? {
                1 => EndWait::Take,
                2 => EndWait::Refuse,
                3 => EndWait::Cancel,
                code => return Err(Malformed::UnknownCode(code)),
            },
        },
        WATCH => {
            let (place, flags) = (reader.place()?, reader.u8()?);
            if flags > 0b11 {
                return Err(Malformed::UnknownCode(flags));
            }
            let wants_openings = flags & 0b10 != 0;
            let mut last_state = None;
            if flags & 1 != 0 {
                let mut view = reader.view()?;
                if wants_openings {
                    view.epoch = reader.u64()?;
                }
                last_state = Some(view);
            }
            ToNode::Watch {
                place,
                last_state,
                wants_openings,
            }
        }
        UNWATCH => ToNode::Unwatch {
            namespace: reader.namespace()?,
        },
        STATISTICS => ToNode::Statistics {
            call: reader.call()?,
            scope: match (reader.u8()?, reader.u32()?, reader.u32()?) {
                (1, 0, 0) => Scope::All,
                (2, stream, 0) => Scope::Stream(StreamId(stream)),
                (3, stream, topic) => Scope::Topic(StreamId(stream), TopicId(topic)),
                (1 | 2, ..) => return Err(Malformed::ReservedNotZero),
                (kind, ..) => return Err(Malformed::UnknownCode(kind)),
            },
        },
        _ => ToNode::CatalogVersion(reader.u64()?),
    })
}
