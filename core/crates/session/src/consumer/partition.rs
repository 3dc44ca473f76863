//! State of a partition that a consumer reads.

use headrace_wire::PollingStrategy;

use super::Start;

/// Next message to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Unknown yet: the stored offset is being queried.
    Unknown,
    /// Known as a place in the log.
    At(Start),
}

/// A partition that the consumer owns.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent reasons not to read"
)]
#[derive(Debug)]
pub(super) struct Partition {
    position: Position,
    /// Number of the position; answers for others are ignored.
    pub(super) epoch: u32,
    /// State as reported by the watch session.
    watched: Option<Watched>,
    pub(super) is_reading: bool,
    pub(super) is_paused: bool,
    /// True while its node is away, until the next heartbeat.
    is_blocked: bool,
    /// The member is to give it up.
    pub(super) is_leaving: bool,
    /// The caller was notified of that.
    pub(super) is_revoked: bool,
}

/// State of a partition on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) incarnation: u64,
    pub(super) purge_epoch: u64,
    pub(super) first_offset: u64,
    pub(super) next_offset: u64,
}

impl Partition {
    pub(super) fn new(epoch: u32) -> Self {
        Self {
            position: Position::Unknown,
            epoch,
            watched: None,
            is_reading: false,
            is_paused: false,
            is_blocked: false,
            is_leaving: false,
            is_revoked: false,
        }
    }

    /// Return whether its position is known.
    pub(super) fn is_positioned(&self) -> bool {
        self.position != Position::Unknown
    }

    pub(super) fn begin_at(&mut self, start: Start) {
        self.position = Position::At(start);
        self.settle_end();
    }

    pub(super) fn seek(&mut self, start: Start, epoch: u32) {
        self.epoch = epoch;
        self.is_reading = false;
        self.begin_at(start);
    }

    /// The end is a fixed offset as soon as it is known.
    fn settle_end(&mut self) {
        if self.position == Position::At(Start::End)
            && let Some(watched) = self.watched
        {
            self.position = Position::At(Start::Offset(watched.next_offset));
        }
    }

    /// Take a report of the server. Returns true if offsets mean other messages than before.
    pub(super) fn watch(&mut self, watched: Watched) -> bool {
        let is_other = self.watched.is_some_and(|before| {
            (before.incarnation, before.purge_epoch) != (watched.incarnation, watched.purge_epoch)
        });
        self.watched = Some(watched);
        self.settle_end();
        is_other
    }

    /// Offset of the next message, if it is known.
    pub(super) fn next_offset(&self) -> Option<u64> {
        match self.position {
            Position::At(Start::Offset(offset)) => Some(offset),
            _ => None,
        }
    }

    /// Offset after the last readable message; 0 if unknown.
    pub(super) fn end(&self) -> u64 {
        self.watched.map_or(0, |watched| watched.next_offset)
    }

    /// Return how to read next, if there is something to read.
    pub(super) fn strategy(&self) -> Option<PollingStrategy> {
        let watched = self.watched?;
        if self.is_reading || self.is_paused || self.is_blocked || self.is_leaving {
            return None;
        }
        let has_messages = watched.next_offset > watched.first_offset;
        match self.position {
            Position::At(Start::Offset(offset)) => {
                (offset < watched.next_offset).then_some(PollingStrategy::Offset(offset))
            }
            Position::At(Start::First) => has_messages.then_some(PollingStrategy::First),
            Position::At(Start::Timestamp(micros)) => {
                has_messages.then_some(PollingStrategy::Timestamp(micros))
            }
            Position::Unknown | Position::At(Start::End) => None,
        }
    }

    /// Note that nothing was read although messages were reported: the next report is awaited.
    pub(super) fn found_nothing(&mut self) {
        self.is_reading = false;
        let offset = self.next_offset();
        match (self.watched.as_mut(), offset) {
            (Some(watched), Some(offset)) => {
                watched.next_offset = watched.next_offset.min(offset);
            }
            _ => self.watched = None,
        }
    }

    pub(super) fn read_up_to(&mut self, next_offset: u64) {
        self.is_reading = false;
        self.position = Position::At(Start::Offset(next_offset));
    }

    /// Do not read until [`Self::unblock`].
    pub(super) fn block(&mut self) {
        self.is_reading = false;
        self.is_blocked = true;
    }

    pub(super) fn unblock(&mut self) {
        self.is_blocked = false;
    }

    pub(super) fn read_failed(&mut self) {
        self.is_reading = false;
    }
}
