//! Requests of sessions: executed at most once, whichever replica receives them and however often.
//!
//! A caller opens a session under a unique client number, gives its requests increasing numbers, and retries a request
//! unchanged until it receives the answer. The client table of the log detects the duplicates.
//!
//! The core answers a request with a frame, or not at all: when the view is lost, or when the session no longer exists
//! at execution. Every pending request is nevertheless completed: by another request of the same session, by the loss
//! of the view, or by a timeout.

use std::collections::BTreeMap;

use headrace_buffer::Slice;
use headrace_vsr::api::{Event, ReadOutcome};
use headrace_vsr::frame::area::{Area, EvictionReason, RedirectReason, Reply, Request};
use headrace_vsr::frame::{Frame, Operation, Origin, Release};
use headrace_vsr::replica::REQUEST_REUSED;

use crate::events::{Refusal, ReplicaEvent};
use crate::thread::ReplicaThread;

/// Maximum number of waiting requests of one session, copies included.
const WAITING_MAX: usize = 4;
/// Timeout after which a pending request is completed regardless of its state.
const REQUEST_TIMEOUT_NS: u64 = 60_000_000_000;
/// Interval between two checks for expired requests.
const EXPIRY_CHECK_INTERVAL_NS: u64 = 1_000_000_000;

/// Type of a request of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Open the session. Session and number are 0.
    Open,
    /// Execute a command.
    Propose,
    /// Close the session.
    Close,
}

/// Request of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    /// Unique client number of the caller; not 0.
    pub client: u128,
    /// Session returned by the request that opened it.
    pub session: u64,
    /// Number above that of every earlier request; unchanged in retries.
    pub number: u64,
    /// Type of the request.
    pub kind: RequestKind,
    /// First release that supports the command.
    pub min_release: Release,
    /// Encoded command, if there is one.
    pub command: Slice,
}

#[derive(Debug)]
struct PendingRequest {
    ticket: u64,
    session: u64,
    number: u64,
    /// Checksum of the request's frame, identical in all copies.
    checksum: u128,
    since_ns: u64,
}

/// Pending requests of sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    waiting: BTreeMap<u128, Vec<PendingRequest>>,
    /// Refusals by request id, which wait for a confirmation that this replica still leads.
    unconfirmed_refusals: BTreeMap<u64, UnconfirmedRefusal>,
    next_sweep_ns: u64,
}

#[derive(Debug)]
struct UnconfirmedRefusal {
    /// Refusal to send; `None` if the request has timed out. The entry then remains until the core has answered.
    refusal: Option<Refusal>,
    since_ns: u64,
}

impl Sessions {
    /// Remove the requests of a client that match `which`. Returns their request ids.
    fn end(&mut self, client: u128, which: impl Fn(&PendingRequest) -> bool) -> Vec<u64> {
        let Some(waiting) = self.waiting.get_mut(&client) else {
            return Vec::new();
        };
        let ended = waiting.extract_if(.., |waiting| which(waiting));
        let tickets = ended.map(|waiting| waiting.ticket).collect();
        if waiting.is_empty() {
            self.waiting.remove(&client);
        }
        tickets
    }

    /// Remove the newest copy of a request. Returns its request id. Earlier copies may be in the log, and are answered
    /// when they execute.
    fn remove_newest(&mut self, client: u128, number: u64) -> Option<u64> {
        let mut waiting = self.waiting.get(&client)?.iter();
        let newest = waiting
            .rfind(|waiting| waiting.number == number)
            .map(|waiting| waiting.ticket)?;
        self.end(client, |waiting| waiting.ticket == newest);
        Some(newest)
    }

    /// Expire refusals that have waited too long, and return their request ids. An isolated primary learns late or
    /// never that it was replaced.
    fn expire_refusals(&mut self, now_ns: u64) -> Vec<u64> {
        self.unconfirmed_refusals
            .iter_mut()
            .filter(|(_, doubted)| now_ns > doubted.since_ns + REQUEST_TIMEOUT_NS)
            .filter_map(|(ticket, doubted)| doubted.refusal.take().map(|_| *ticket))
            .collect()
    }

    fn end_all(&mut self, which: impl Fn(&PendingRequest) -> bool) -> Vec<u64> {
        let clients: Vec<u128> = self.waiting.keys().copied().collect();
        clients
            .into_iter()
            .flat_map(|client| self.end(client, &which))
            .collect()
    }
}

impl ReplicaThread {
    /// Submit a request of a session.
    pub(crate) fn request(&mut self, ticket: u64, request: SessionRequest, now_ns: u64) {
        if !self.admit_or_refuse(ticket) {
            return;
        }
        let SessionRequest {
            client,
            session,
            number,
            kind,
            min_release: since,
            command,
        } = request;
        let is_stale = self.core.clients().get(client).is_some_and(|known| {
            kind != RequestKind::Open && known.session == session && number < known.last_request
        });
        if is_stale {
            return self.refuse(ticket, Refusal::Stale);
        }
        let area = Request {
            client,
            session,
            request: number,
            // Copies of a request must be identical frames.
            client_timestamp_ns: 0,
            user_id: 0,
            count: 1,
            operation: match kind {
                RequestKind::Open => Operation::REGISTER,
                RequestKind::Propose => Operation::METADATA_FIRST,
                RequestKind::Close => Operation::UNREGISTER,
            },
            ack_level: 0,
        };
        let origin = Origin {
            release: since,
            ..self.origin
        };
        let frame = Frame::seal(origin, area.into(), command);
        let waiting = self.sessions.waiting.entry(client).or_default();
        if waiting.len() >= WAITING_MAX {
            return self.refuse(ticket, Refusal::Busy);
        }
        waiting.push(PendingRequest {
            ticket,
            session,
            number,
            checksum: frame.header.checksum,
            since_ns: now_ns,
        });
        self.work.held_proposals.push(Event::Request(frame));
    }

    /// Process a frame from the core for a client.
    pub(crate) fn answer_client(&mut self, client: u128, frame: &Frame) {
        match frame.header.area {
            Area::Reply(reply) => self.reply_client(client, &reply, &frame.body),
            Area::Redirect(redirect) => {
                let refusal = match redirect.reason {
                    RedirectReason::NotPrimary => self.redirected(redirect.primary),
                    RedirectReason::Busy => Refusal::Busy,
                    RedirectReason::Storage => Refusal::Storage,
                    RedirectReason::Release => Refusal::Release,
                };
                // A redirect refers to one copy, and precedes the search for earlier copies: only the newest copy was
                // certainly not accepted.
                if let Some(ticket) = self.sessions.remove_newest(client, redirect.request) {
                    self.refuse(ticket, refusal);
                }
            }
            Area::Eviction(eviction) => {
                let refusal = match eviction.reason {
                    EvictionReason::SessionFenced => Refusal::SessionFenced,
                    EvictionReason::NoSession
                    | EvictionReason::Protocol
                    | EvictionReason::Release => Refusal::SessionEnded,
                };
                let session = eviction.session;
                for ticket in self
                    .sessions
                    .end(client, |waiting| waiting.session == session)
                {
                    // A primary that was replaced without noticing does not know newer sessions.
                    let doubted = UnconfirmedRefusal {
                        refusal: Some(refusal),
                        since_ns: self.machine.clock().monotonic_ns,
                    };
                    self.sessions.unconfirmed_refusals.insert(ticket, doubted);
                    self.work.reads.push(ticket);
                }
            }
            _ => {}
        }
    }

    fn reply_client(&mut self, client: u128, reply: &Reply, body: &Slice) {
        let checksum = reply.request_checksum;
        for ticket in self
            .sessions
            .end(client, |waiting| waiting.checksum == checksum)
        {
            if reply.status == REQUEST_REUSED {
                self.refuse(ticket, Refusal::Reused);
            } else {
                self.work.host_events.push(ReplicaEvent::RequestCompleted {
                    request_id: ticket,
                    session: reply.session,
                    reply: body.clone(),
                });
            }
        }
    }

    /// Complete a refusal that waits for this read index. Returns whether `ticket` belongs to such a refusal.
    pub(crate) fn confirm_refusal(&mut self, ticket: u64, outcome: ReadOutcome) -> bool {
        let Some(doubted) = self.sessions.unconfirmed_refusals.remove(&ticket) else {
            return false;
        };
        let Some(refusal) = doubted.refusal else {
            return true;
        };
        let refusal = match outcome {
            ReadOutcome::Ready { .. } => refusal,
            ReadOutcome::Redirected { primary } => self.redirected(primary),
        };
        self.refuse(ticket, refusal);
        true
    }

    /// Complete requests that the core will not answer: `leads` is false if this replica is no longer the primary.
    pub(crate) fn expire_requests(&mut self, leads: bool, now_ns: u64) {
        if leads && now_ns < self.sessions.next_sweep_ns {
            return;
        }
        self.sessions.next_sweep_ns = now_ns + EXPIRY_CHECK_INTERVAL_NS;
        // Requests not yet passed to the core are kept: the core refuses them with the name of the primary.
        let lost = !leads && self.work.held_proposals.is_empty();
        let mut ended = self
            .sessions
            .end_all(|waiting| lost || now_ns > waiting.since_ns + REQUEST_TIMEOUT_NS);
        ended.extend(self.sessions.expire_refusals(now_ns));
        for ticket in ended {
            self.refuse(ticket, Refusal::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(ticket: u64, number: u64) -> PendingRequest {
        PendingRequest {
            ticket,
            session: 3,
            number,
            checksum: number.into(),
            since_ns: ticket,
        }
    }

    #[test]
    fn questions_end_by_client_and_leave_nothing_behind() {
        let mut sessions = Sessions::default();
        sessions
            .waiting
            .insert(7, vec![waiting(1, 1), waiting(2, 2)]);
        sessions.waiting.insert(8, vec![waiting(3, 1)]);
        assert_eq!(sessions.end(7, |waiting| waiting.number == 1), [1]);
        assert_eq!(sessions.end(9, |_| true), [0_u64; 0]);
        assert_eq!(sessions.end_all(|waiting| waiting.since_ns < 3), [2]);
        assert_eq!(sessions.end_all(|_| true), [3]);
        assert!(sessions.waiting.is_empty());
    }

    /// Race of two copies of a request: one may have been accepted before the other was refused.
    #[test]
    fn a_refusal_is_of_the_newest_copy() {
        let mut sessions = Sessions::default();
        let copies = [(1, 5), (2, 5), (3, 4)].map(|(ticket, number)| waiting(ticket, number));
        sessions.waiting.insert(7, copies.into());
        assert_eq!(sessions.remove_newest(7, 5), Some(2));
        assert_eq!(sessions.remove_newest(7, 5), Some(1));
        assert_eq!(sessions.remove_newest(7, 5), None);
        assert_eq!(sessions.remove_newest(8, 4), None);
        assert_eq!(sessions.remove_newest(7, 4), Some(3));
        assert!(sessions.waiting.is_empty());
    }

    /// Every request completes within the timeout, and exactly once.
    #[test]
    fn a_doubt_ends() {
        let mut sessions = Sessions::default();
        let doubted = UnconfirmedRefusal {
            refusal: Some(Refusal::SessionEnded),
            since_ns: 5,
        };
        sessions.unconfirmed_refusals.insert(1, doubted);
        assert_eq!(sessions.expire_refusals(5 + REQUEST_TIMEOUT_NS), [0_u64; 0]);
        assert_eq!(sessions.expire_refusals(6 + REQUEST_TIMEOUT_NS), [1]);
        assert_eq!(sessions.expire_refusals(7 + REQUEST_TIMEOUT_NS), [0_u64; 0]);
        assert!(
            sessions.unconfirmed_refusals.contains_key(&1),
            "the core has yet to say"
        );
    }
}
