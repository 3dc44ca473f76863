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
    /// Offset after the last message that was read.
    read: Option<u64>,
    /// Offset after the last message whose offset was, or is being, stored.
    pub(super) stored: u64,
    /// Lowest offset after a message at which the group may be: the stored one of when the partition was assigned, unless
    /// the caller has chosen a place since. `None` while it is unknown.
    lowest: Option<u64>,
    /// State as reported by the watch session.
    watched: Option<Watched>,
    /// True if it was reported on the present connection of the watch session.
    pub(super) is_watched: bool,
    /// The stored offset is being queried.
    pub(super) is_querying: bool,
    pub(super) is_reading: bool,
    /// State that was known when the read in flight began.
    read_at: Option<Watched>,
    /// True while its node is away, or does not know yet that the member owns it: it is tried at the next heartbeat, or when
    /// it has changed.
    is_blocked: bool,
    /// None of its messages is as new as the position demands: it is tried again when it has changed.
    is_exhausted: bool,
    /// The member is to give it up.
    pub(super) is_leaving: bool,
    /// The caller was notified of that.
    pub(super) is_revoked: bool,
    /// The caller has chosen a place since the partition was assigned.
    is_chosen: bool,
}

/// State of a partition on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) incarnation: u64,
    pub(super) purge_epoch: u64,
    pub(super) first_offset: u64,
    pub(super) next_offset: u64,
    /// Number of the opening of its log in which the end is known; 0: unknown.
    pub(super) epoch: u64,
}

impl Watched {
    /// Return whether offsets mean the same messages, as far as both have them.
    pub(super) fn is_same_log(&self, other: &Self) -> bool {
        (self.incarnation, self.purge_epoch) == (other.incarnation, other.purge_epoch)
    }
}

impl Partition {
    pub(super) fn new(epoch: u32) -> Self {
        Self {
            position: Position::Unknown,
            epoch,
            read: None,
            stored: 0,
            lowest: None,
            watched: None,
            is_watched: false,
            is_querying: false,
            is_reading: false,
            read_at: None,
            is_blocked: false,
            is_exhausted: false,
            is_leaving: false,
            is_revoked: false,
            is_chosen: false,
        }
    }

    /// Return whether its position is known.
    pub(super) fn is_positioned(&self) -> bool {
        self.position != Position::Unknown
    }

    /// Return whether its position is a place that does not move any more.
    pub(super) fn is_settled_at(&self) -> bool {
        self.is_positioned() && self.position != Position::At(Start::End)
    }

    pub(super) fn begin_at(&mut self, start: Start) {
        self.position = Position::At(start);
        self.is_blocked = false;
        self.is_exhausted = false;
    }

    /// Continue at a place of the caller.
    pub(super) fn choose(&mut self, start: Start, epoch: u32) {
        self.is_chosen = true;
        self.seek(start, epoch);
    }

    fn seek(&mut self, start: Start, epoch: u32) {
        self.epoch = epoch;
        self.is_reading = false;
        self.lowest = Some(0);
        self.begin_at(start);
    }

    /// Note the offset after the last message that others have processed.
    pub(super) fn found_stored(&mut self, next_offset: u64) {
        self.lowest = Some(next_offset);
    }

    /// Return whether the group may continue at an offset. A lower one is of an earlier assignment: another member has
    /// been further since.
    pub(super) fn may_continue_at(&self, next_offset: u64) -> bool {
        self.lowest.is_some_and(|lowest| next_offset >= lowest)
    }

    /// Continue at the beginning of what a purge has left. A time stays what it is.
    pub(super) fn restart(&mut self, epoch: u32) {
        let start = match self.position {
            Position::At(start @ Start::Timestamp(_)) => start,
            _ => Start::First,
        };
        self.read = None;
        self.stored = 0;
        self.seek(start, epoch);
    }

    /// Return whether the stored offset decides where reading begins, and nothing was read yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.read.is_none() && !self.is_chosen
    }

    /// Forget the position: the stored offset is to be queried again.
    pub(super) fn forget_position(&mut self, epoch: u32) {
        self.epoch = epoch;
        self.position = Position::Unknown;
        self.is_reading = false;
        self.stored = 0;
        self.lowest = None;
    }

    /// Take notice that the log was cut: it had messages up to `before`, and ends at `end` now. A position among those
    /// that are gone moves to the end.
    pub(super) fn cut(&mut self, before: u64, end: u64, epoch: u32) {
        let before = self.read.unwrap_or(0).max(before);
        self.read = self.read.map(|read| read.min(end));
        self.stored = self.stored.min(end);
        self.lowest = self.lowest.map(|lowest| lowest.min(end));
        // Beyond that it is a place for which the caller waits.
        if let Some(next) = self.next_offset()
            && end < next
            && next <= before
        {
            self.epoch = epoch;
            self.is_reading = false;
            self.begin_at(Start::Offset(end));
        }
    }

    /// The end is a fixed offset as soon as it is known. Returns it if it is known from now on.
    pub(super) fn settle_end(&mut self) -> Option<u64> {
        if self.position != Position::At(Start::End) {
            return None;
        }
        let end = self.watched?.next_offset;
        self.position = Position::At(Start::Offset(end));
        Some(end)
    }

    /// Take a report of the server. Returns false if it is the first one since the partition was assigned.
    pub(super) fn watch(&mut self, watched: Watched) -> bool {
        if self.watched != Some(watched) {
            self.is_blocked = false;
            self.is_exhausted = false;
        }
        self.is_watched = true;
        self.watched.replace(watched).is_some()
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
        let is_hindered = self.is_reading || self.is_blocked || self.is_exhausted;
        if is_hindered || self.is_leaving {
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

    pub(super) fn begin_read(&mut self) {
        self.is_reading = true;
        self.read_at = self.watched;
    }

    /// Note that nothing was read although messages were reported. `is_served`: the server has looked for them.
    pub(super) fn found_nothing(&mut self, is_served: bool) {
        self.is_reading = false;
        if self.watched != self.read_at {
            // What was reported meanwhile may have come too late for that read.
            return;
        }
        if is_served && matches!(self.position, Position::At(Start::Timestamp(_))) {
            self.is_exhausted = true;
        } else {
            self.is_blocked = true;
        }
    }

    /// Offset after the last message that was read since the partition was assigned.
    pub(super) fn read_end(&self) -> Option<u64> {
        self.read
    }

    pub(super) fn read_up_to(&mut self, next_offset: u64) {
        self.is_reading = false;
        self.position = Position::At(Start::Offset(next_offset));
        self.read = Some(next_offset);
    }

    /// Return whether nothing was read, or is being read, whose offset is not stored.
    pub(super) fn is_settled(&self) -> bool {
        !self.is_reading && self.read.is_none_or(|read| read <= self.stored)
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
