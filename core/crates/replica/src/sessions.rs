//! Requests of sessions: executed at most once, whichever replica they are sent to and however often.
//!
//! A caller opens a session under a number that nobody else uses, gives its requests growing numbers, and sends a request
//! again, unchanged, for as long as it has no answer. The client table of the log tells the copies apart.
//!
//! The core answers a request with a frame, or not at all: when the view is lost, or when the session is gone by the time
//! of its execution. A question here is nevertheless ended: by another one of the same session, by the loss of the view,
//! or when it has waited for too long.

use std::collections::BTreeMap;

use headrace_buffer::Slice;
use headrace_vsr::api::{Event, ReadOutcome};
use headrace_vsr::frame::area::{Area, EvictionReason, RedirectReason, Reply, Request};
use headrace_vsr::frame::{Frame, Operation, Origin, Release};
use headrace_vsr::replica::REQUEST_REUSED;

use crate::events::{Refusal, ReplicaEvent};
use crate::thread::ReplicaThread;

/// Copies of requests of one session that may wait at a time.
const WAITING_MAX: usize = 4;
/// After so long a question is ended, whatever became of it.
const PATIENCE_NS: u64 = 60_000_000_000;
/// How often that is looked at.
const SWEEP_NS: u64 = 1_000_000_000;

/// What is asked of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// To begin. Session and number are 0.
    Open,
    /// To execute a command.
    Propose,
    /// To end.
    Close,
}

/// A request of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    /// The caller; not 0, and nobody else's.
    pub client: u128,
    /// What opening it was answered with.
    pub session: u64,
    /// Above that of every earlier request; the same whenever it is sent again.
    pub number: u64,
    /// What is asked.
    pub kind: RequestKind,
    /// The release since which there is the command.
    pub since: Release,
    /// The command, if there is one.
    pub command: Slice,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    session: u64,
    number: u64,
    /// Of the request's frame: copies have the same one.
    checksum: u128,
    since_ns: u64,
}

/// The questions that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    waiting: BTreeMap<u128, Vec<Waiting>>,
    /// By ticket: what is to be answered once it is sure that this replica still leads.
    doubted: BTreeMap<u64, Doubted>,
    next_sweep_ns: u64,
}

#[derive(Debug)]
struct Doubted {
    /// `None`: answered meanwhile, because it took too long. The core's word on it is still to come.
    refusal: Option<Refusal>,
    since_ns: u64,
}

impl Sessions {
    /// Takes out the tickets of a client that `which` names.
    fn end(&mut self, client: u128, which: impl Fn(&Waiting) -> bool) -> Vec<u64> {
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

    /// Takes out the newest ticket of a request that was asked for several times. Earlier copies may be on their way
    /// through the log, and are answered from there.
    fn end_newest(&mut self, client: u128, number: u64) -> Option<u64> {
        let mut waiting = self.waiting.get(&client)?.iter();
        let newest = waiting
            .rfind(|waiting| waiting.number == number)
            .map(|waiting| waiting.ticket)?;
        self.end(client, |waiting| waiting.ticket == newest);
        Some(newest)
    }

    /// The tickets that have been doubted for too long: a primary that was cut off finds out late, or never.
    fn end_long_doubts(&mut self, now_ns: u64) -> Vec<u64> {
        self.doubted
            .iter_mut()
            .filter(|(_, doubted)| now_ns > doubted.since_ns + PATIENCE_NS)
            .filter_map(|(ticket, doubted)| doubted.refusal.take().map(|_| *ticket))
            .collect()
    }

    fn end_all(&mut self, which: impl Fn(&Waiting) -> bool) -> Vec<u64> {
        let clients: Vec<u128> = self.waiting.keys().copied().collect();
        clients
            .into_iter()
            .flat_map(|client| self.end(client, &which))
            .collect()
    }
}

impl ReplicaThread {
    /// A request of a session.
    pub(crate) fn request(&mut self, ticket: u64, request: SessionRequest, now_ns: u64) {
        if !self.takes(ticket) {
            return;
        }
        let SessionRequest {
            client,
            session,
            number,
            kind,
            since,
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
            // A copy has to be the same frame.
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
        waiting.push(Waiting {
            ticket,
            session,
            number,
            checksum: frame.header.checksum,
            since_ns: now_ns,
        });
        self.work.held.push(Event::Request(frame));
    }

    /// What the core has for a client.
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
                // Of one copy, and before the core looks for others: only the newest was not taken for sure.
                if let Some(ticket) = self.sessions.end_newest(client, redirect.request) {
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
                    // A primary that was replaced without noticing it knows nothing of newer sessions.
                    let doubted = Doubted {
                        refusal: Some(refusal),
                        since_ns: self.machine.clock().monotonic_ns,
                    };
                    self.sessions.doubted.insert(ticket, doubted);
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
                self.work.told.push(ReplicaEvent::Answered {
                    ticket,
                    session: reply.session,
                    reply: body.clone(),
                });
            }
        }
    }

    /// Whether a read index was asked for the end of a session; it is answered then.
    pub(crate) fn end_doubt(&mut self, ticket: u64, outcome: ReadOutcome) -> bool {
        let Some(doubted) = self.sessions.doubted.remove(&ticket) else {
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

    /// Ends questions that the core will not answer: `leads` is false when it is no primary any more.
    pub(crate) fn end_questions(&mut self, leads: bool, now_ns: u64) {
        if leads && now_ns < self.sessions.next_sweep_ns {
            return;
        }
        self.sessions.next_sweep_ns = now_ns + SWEEP_NS;
        // What the core has not seen yet is better told who leads.
        let lost = !leads && self.work.held.is_empty();
        let mut ended = self
            .sessions
            .end_all(|waiting| lost || now_ns > waiting.since_ns + PATIENCE_NS);
        ended.extend(self.sessions.end_long_doubts(now_ns));
        for ticket in ended {
            self.refuse(ticket, Refusal::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(ticket: u64, number: u64) -> Waiting {
        Waiting {
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

    /// Of two copies one may have been taken before the other was refused.
    #[test]
    fn a_refusal_is_of_the_newest_copy() {
        let mut sessions = Sessions::default();
        let copies = [(1, 5), (2, 5), (3, 4)].map(|(ticket, number)| waiting(ticket, number));
        sessions.waiting.insert(7, copies.into());
        assert_eq!(sessions.end_newest(7, 5), Some(2));
        assert_eq!(sessions.end_newest(7, 5), Some(1));
        assert_eq!(sessions.end_newest(7, 5), None);
        assert_eq!(sessions.end_newest(8, 4), None);
        assert_eq!(sessions.end_newest(7, 4), Some(3));
        assert!(sessions.waiting.is_empty());
    }

    /// Nobody waits for longer than for any other answer, and nobody is answered twice.
    #[test]
    fn a_doubt_ends() {
        let mut sessions = Sessions::default();
        let doubted = Doubted {
            refusal: Some(Refusal::SessionEnded),
            since_ns: 5,
        };
        sessions.doubted.insert(1, doubted);
        assert_eq!(sessions.end_long_doubts(5 + PATIENCE_NS), [0_u64; 0]);
        assert_eq!(sessions.end_long_doubts(6 + PATIENCE_NS), [1]);
        assert_eq!(sessions.end_long_doubts(7 + PATIENCE_NS), [0_u64; 0]);
        assert!(sessions.doubted.contains_key(&1), "the core has yet to say");
    }
}
