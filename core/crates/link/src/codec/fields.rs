//! Fields that several frames share.

use alloc::vec::Vec;

use headrace_model::{ClientId, ClientKey, GroupId, Namespace, Offset, Opening, UserId};
use headrace_partition::{Committer, ConsumerKey, Poll, PollingStrategy};
use headrace_wire::Malformed;

use super::reader::Reader;
use crate::{Membership, PartitionRef, RequestId, TraceContext, WatchedState};

/// Flag of a request: a membership follows.
const MEMBER: u8 = 1;
/// Flag of a request: a trace context follows.
const TRACE: u8 = 2;

/// Flag of the kind of a consumer: the user who changes its offset follows.
const USER: u8 = 4;
/// Flag of the kind of a consumer: the user manages the topic.
const MANAGES: u8 = 8;

/// Writer of fields.
pub(super) trait Fields {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn u128(&mut self, value: u128);
    fn i32(&mut self, value: i32);

    fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    fn call(&mut self, call: RequestId) {
        self.u64(call.0);
    }

    fn namespace(&mut self, namespace: Namespace) {
        self.u64(namespace.packed());
    }

    fn place(&mut self, place: PartitionRef) {
        self.namespace(place.namespace);
        self.u64(place.incarnation);
        self.u64(place.purge_epoch);
    }

    /// Write a state without its openings and their number.
    fn view(&mut self, view: &WatchedState) {
        self.u64(view.incarnation);
        self.u64(view.purge_epoch);
        self.u64(view.first.0);
        self.u64(view.end.0);
    }

    /// Write the openings, if there are any.
    fn openings(&mut self, openings: &[Opening]) {
        if openings.is_empty() {
            return;
        }
        let count = u8::try_from(openings.len()).expect("a log keeps fewer");
        self.u8(count);
        for opening in openings {
            self.u64(opening.epoch);
            self.u64(opening.end.0);
        }
    }

    /// Write the optional membership and trace context of a request.
    fn requester(&mut self, member: Option<Membership>, trace: Option<TraceContext>) {
        let member_flag = if member.is_some() { MEMBER } else { 0 };
        let trace_flag = if trace.is_some() { TRACE } else { 0 };
        self.u8(member_flag | trace_flag);
        if let Some(member) = member {
            self.u32(member.group.0);
            self.u32(member.key);
            self.u64(member.client.gateway);
            self.u32(member.client.client.0);
            self.u64(member.incarnation);
        }
        if let Some(trace) = trace {
            self.u128(trace.trace_id);
            self.u64(trace.span_id);
        }
    }

    /// Write a consumer, and the user who changes its offset, if one does.
    fn consumer(&mut self, consumer: Option<ConsumerKey>, by: Option<Committer>) {
        let (kind, key) = match consumer {
            None => (0, 0),
            Some(ConsumerKey::Consumer(key)) => (1, key),
            Some(ConsumerKey::Group(key)) => (2, key),
        };
        let flags = by.map_or(0, |by| USER | if by.manages { MANAGES } else { 0 });
        self.u8(kind | flags);
        self.u32(key);
        if let Some(by) = by {
            self.u32(by.user.0);
        }
    }

    fn poll(&mut self, poll: &Poll) {
        let (kind, value) = poll.strategy.parts();
        self.u8(kind);
        self.u64(value);
        self.u32(poll.count);
        self.consumer(poll.consumer, poll.by);
        let is_limited = poll.bytes_max != Poll::UNLIMITED;
        self.u8(u8::from(poll.auto_commit) | u8::from(is_limited) << 1);
        self.u32(poll.minimum_bytes);
        if is_limited {
            self.u32(poll.bytes_max);
        }
    }
}

macro_rules! integers {
    ($($name:ident: $type:ty),*) => {
        $(
            fn $name(&mut self, value: $type) {
                self.extend_from_slice(&value.to_le_bytes());
            }
        )*
    };
}

impl Fields for Vec<u8> {
    integers!(u8: u8, u16: u16, u32: u32, u64: u64, u128: u128, i32: i32);
}

impl Reader<'_> {
    pub(super) fn call(&mut self) -> Result<RequestId, Malformed> {
        self.u64().map(RequestId)
    }

    pub(super) fn offset(&mut self) -> Result<Offset, Malformed> {
        self.u64().map(Offset)
    }

    pub(super) fn place(&mut self) -> Result<PartitionRef, Malformed> {
        Ok(PartitionRef {
            namespace: self.namespace()?,
            incarnation: self.u64()?,
            purge_epoch: self.u64()?,
        })
    }

    pub(super) fn view(&mut self) -> Result<WatchedState, Malformed> {
        Ok(WatchedState {
            incarnation: self.u64()?,
            purge_epoch: self.u64()?,
            first: self.offset()?,
            end: self.offset()?,
            ..WatchedState::default()
        })
    }

    /// Read a state and the openings that follow it, if any do.
    pub(super) fn view_with_openings(&mut self) -> Result<WatchedState, Malformed> {
        let view = self.view()?;
        if self.remaining() == 0 {
            return Ok(view);
        }
        let count = self.u8()?;
        let mut openings = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            openings.push(Opening {
                epoch: self.u64()?,
                end: self.offset()?,
            });
        }
        let last = openings.last().ok_or(Malformed::CountMismatch)?;
        Ok(WatchedState {
            epoch: last.epoch,
            openings: openings.into(),
            ..view
        })
    }

    pub(super) fn requester(
        &mut self,
    ) -> Result<(Option<Membership>, Option<TraceContext>), Malformed> {
        let flags = self.u8()?;
        if flags & !(MEMBER | TRACE) != 0 {
            return Err(Malformed::UnknownCode(flags));
        }
        let member = if flags & MEMBER == 0 {
            None
        } else {
            Some(self.member()?)
        };
        let trace = if flags & TRACE == 0 {
            None
        } else {
            Some(self.trace()?)
        };
        Ok((member, trace))
    }

    fn member(&mut self) -> Result<Membership, Malformed> {
        Ok(Membership {
            group: GroupId(self.u32()?),
            key: self.u32()?,
            client: ClientKey {
                gateway: self.u64()?,
                client: ClientId(self.u32()?),
            },
            incarnation: self.u64()?,
        })
    }

    /// Read a trace context, whose ids must not be 0.
    fn trace(&mut self) -> Result<TraceContext, Malformed> {
        let (trace_id, span_id) = (self.u128()?, self.u64()?);
        let is_one = trace_id != 0 && span_id != 0;
        is_one
            .then_some(TraceContext { trace_id, span_id })
            .ok_or(Malformed::UnknownCode(0))
    }

    /// Read a consumer, and the user who changes its offset.
    pub(super) fn changed_consumer(
        &mut self,
    ) -> Result<(ConsumerKey, Option<Committer>), Malformed> {
        let (consumer, by) = self.optional_consumer()?;
        Ok((consumer.ok_or(Malformed::UnknownCode(0))?, by))
    }

    /// Read a consumer whose offset is not changed.
    pub(super) fn consumer(&mut self) -> Result<ConsumerKey, Malformed> {
        match self.changed_consumer()? {
            (consumer, None) => Ok(consumer),
            (_, Some(_)) => Err(Malformed::ReservedNotZero),
        }
    }

    fn optional_consumer(&mut self) -> Result<(Option<ConsumerKey>, Option<Committer>), Malformed> {
        let (kind, key) = (self.u8()?, self.u32()?);
        let manages = kind & MANAGES != 0;
        let by = if kind & USER != 0 {
            let user = UserId(self.u32()?);
            Some(Committer { user, manages })
        } else if manages {
            return Err(Malformed::ReservedNotZero);
        } else {
            None
        };
        let consumer = match (kind & !(USER | MANAGES), key) {
            (0, 0) if by.is_none() => None,
            (0, _) => return Err(Malformed::ReservedNotZero),
            (1, key) => Some(ConsumerKey::Consumer(key)),
            (2, key) => Some(ConsumerKey::Group(key)),
            _ => return Err(Malformed::UnknownCode(kind)),
        };
        Ok((consumer, by))
    }

    pub(super) fn poll(&mut self) -> Result<Poll, Malformed> {
        let (kind, value) = (self.u8()?, self.u64()?);
        let strategy = PollingStrategy::from_parts(kind, value)?;
        if strategy.parts() != (kind, value) {
            return Err(Malformed::ReservedNotZero);
        }
        let (count, (consumer, by), marks) = (self.u32()?, self.optional_consumer()?, self.u8()?);
        if marks > 0b11 {
            return Err(Malformed::ReservedNotZero);
        }
        let minimum_bytes = self.u32()?;
        let is_limited = marks & 0b10 != 0;
        let bytes_max = if is_limited {
            self.u32()?
        } else {
            Poll::UNLIMITED
        };
        if is_limited && bytes_max == Poll::UNLIMITED {
            return Err(Malformed::ReservedNotZero);
        }
        Ok(Poll {
            strategy,
            count,
            consumer,
            auto_commit: marks & 1 != 0,
            by,
            minimum_bytes,
            bytes_max,
        })
    }
}
