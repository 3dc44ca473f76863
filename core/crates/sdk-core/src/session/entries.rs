//! Requests of a session: queued, and in flight.

use std::collections::VecDeque;
use std::time::Duration;

use super::login::Step;
use crate::{Failure, Frame, Outcome, Repeat, Request};

/// Owner of a request.
#[derive(Debug)]
pub(super) enum Owner<T> {
    Caller(T),
    Login(Step),
    Ping,
    /// The caller has got its failure; the answer is still awaited, because answers have no other identity than
    /// their order.
    Abandoned,
}

/// A request with its owner.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) request: Request,
    pub(super) owner: Owner<T>,
    submitted_at: Duration,
    sent_at: Duration,
}

impl<T> Entry<T> {
    fn deadline(&self) -> Option<Duration> {
        matches!(self.owner, Owner::Caller(_)).then_some(())?;
        Some(self.submitted_at.saturating_add(self.request.timeout?))
    }
}

/// All requests of a session, in order: those in flight, then those in the queue.
#[derive(Debug)]
pub(super) struct Entries<T> {
    in_flight: VecDeque<Entry<T>>,
    /// Number of requests in flight, from the oldest on, that were written completely.
    written: usize,
    queued: VecDeque<Entry<T>>,
    /// Number of requests at the front of the queue that were sent and are to be sent again.
    returned: usize,
    /// Earliest deadline or an earlier time; computed again when it has passed.
    deadline: Option<Duration>,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self {
            in_flight: VecDeque::new(),
            written: 0,
            queued: VecDeque::new(),
            returned: 0,
            deadline: None,
        }
    }
}

impl<T> Entries<T> {
    pub(super) fn len(&self) -> usize {
        self.in_flight.len() + self.queued.len()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn queue(&mut self, request: Request, owner: Owner<T>, now: Duration) {
        let entry = Entry {
            request,
            owner,
            submitted_at: now,
            sent_at: now,
        };
        self.deadline = self.deadline.into_iter().chain(entry.deadline()).min();
        self.queued.push_back(entry);
    }

    /// Take the next request of the queue into flight.
    pub(super) fn send_next(&mut self, now: Duration) -> Option<(u32, Frame)> {
        let mut entry = self.queued.pop_front()?;
        self.returned = self.returned.saturating_sub(1);
        entry.sent_at = now;
        let sent = (entry.request.code, entry.request.frame.clone());
        self.in_flight.push_back(entry);
        Some(sent)
    }

    /// Take a request of the session itself into flight, ahead of the queue.
    pub(super) fn send_first(&mut self, request: Request, owner: Owner<T>, now: Duration) -> Frame {
        let frame = request.frame.clone();
        self.in_flight.push_back(Entry {
            request,
            owner,
            submitted_at: now,
            sent_at: now,
        });
        frame
    }

    pub(super) fn note_written(&mut self) {
        self.written = (self.written + 1).min(self.in_flight.len());
    }

    pub(super) fn take_oldest(&mut self) -> Option<Entry<T>> {
        self.written = self.written.saturating_sub(1);
        self.in_flight.pop_front()
    }

    /// Time since which the oldest request waits for its answer.
    pub(super) fn waiting_since(&self) -> Option<Duration> {
        self.in_flight.front().map(|entry| entry.sent_at)
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Take the tokens of requests whose deadline has passed, with the time that they had, and whether they were sent.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<(T, Duration, bool)> {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return Vec::new();
        }
        let is_late = |entry: &Entry<T>| entry.deadline().is_some_and(|deadline| deadline <= now);
        let mut late = Vec::new();
        for entry in self.in_flight.iter_mut().filter(|entry| is_late(entry)) {
            let timeout = entry.request.timeout.unwrap_or_default();
            let owner = std::mem::replace(&mut entry.owner, Owner::Abandoned);
            if let Owner::Caller(token) = owner {
                late.push((token, timeout, true));
            }
        }
        let returned = std::mem::take(&mut self.returned);
        for (index, entry) in std::mem::take(&mut self.queued).into_iter().enumerate() {
            if is_late(&entry) {
                let timeout = entry.request.timeout.unwrap_or_default();
                if let Owner::Caller(token) = entry.owner {
                    late.push((token, timeout, false));
                }
            } else {
                self.returned += usize::from(index < returned);
                self.queued.push_back(entry);
            }
        }
        let entries = self.in_flight.iter().chain(&self.queued);
        self.deadline = entries.filter_map(Entry::deadline).min();
        late
    }

    /// Queue a request again that was certainly not executed, ahead of all others. Returns its failure if it is only
    /// valid on the present connection.
    pub(super) fn put_back(&mut self, entry: Entry<T>, reason: &str) -> Option<(T, Outcome)> {
        match entry.request.repeat {
            Repeat::IfUnsent | Repeat::Always => {
                // Answers have the order of the requests: what was put back before was sent before.
                self.queued.insert(self.returned, entry);
                self.returned += 1;
                None
            }
            Repeat::Bound(_) => {
                let reason = reason.to_owned();
                caller(entry.owner).map(|token| (token, Err(Failure::NotSent { reason })))
            }
        }
    }

    /// Sort out what is sent again on the next connection. Returns the others with their failures.
    pub(super) fn connection_lost(&mut self, reason: &str) -> Vec<(T, Outcome)> {
        let mut failed = Vec::new();
        let written = std::mem::take(&mut self.written);
        let in_flight = std::mem::take(&mut self.in_flight);
        let mut rest = std::mem::take(&mut self.queued);
        let mut again: VecDeque<_> = rest.drain(..std::mem::take(&mut self.returned)).collect();
        for (index, entry) in in_flight.into_iter().enumerate() {
            let is_sent = index < written;
            match entry.request.repeat {
                Repeat::Always => again.push_back(entry),
                Repeat::IfUnsent if !is_sent => again.push_back(entry),
                _ => {
                    let reason = reason.to_owned();
                    let failure = if is_sent {
                        Failure::Unanswered { reason }
                    } else {
                        Failure::NotSent { reason }
                    };
                    failed.extend(caller(entry.owner).map(|token| (token, Err(failure))));
                }
            }
        }
        again.retain(|entry| matches!(entry.owner, Owner::Caller(_)));
        for entry in rest {
            if let Repeat::Bound(_) = entry.request.repeat {
                let reason = reason.to_owned();
                let failure = Failure::NotSent { reason };
                failed.extend(caller(entry.owner).map(|token| (token, Err(failure))));
            } else {
                again.push_back(entry);
            }
        }
        self.queued = again;
        failed
    }

    /// Fail everything.
    pub(super) fn end(&mut self, failure: &Failure) -> Vec<(T, Outcome)> {
        let written = std::mem::take(&mut self.written);
        let in_flight = std::mem::take(&mut self.in_flight).into_iter().enumerate();
        let queued = std::mem::take(&mut self.queued);
        let sent = in_flight.map(|(index, entry)| (index < written, entry));
        let all = sent.chain(queued.into_iter().map(|entry| (false, entry)));
        self.deadline = None;
        self.returned = 0;
        all.filter_map(|(is_sent, entry)| {
            let failure = if is_sent {
                Failure::Unanswered {
                    reason: failure.to_string(),
                }
            } else {
                failure.clone()
            };
            caller(entry.owner).map(|token| (token, Err(failure)))
        })
        .collect()
    }
}

fn caller<T>(owner: Owner<T>) -> Option<T> {
    match owner {
        Owner::Caller(token) => Some(token),
        Owner::Login(_) | Owner::Ping | Owner::Abandoned => None,
    }
}
