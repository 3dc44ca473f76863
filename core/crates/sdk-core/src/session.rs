//! One connection that is made again when it breaks.

mod entries;
mod login;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use headrace_wire::frame::ResponseHeader;
use headrace_wire::{Command, CommandCode, Status};

use self::entries::{Entries, Entry, Owner};
pub use self::login::Login;
use self::login::Step;
use crate::{Backoff, Failure, Frame, Outcome, Repeat, Request};

/// Time that a server has to answer what is in flight after it has announced that it ends the connection.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses for messages to people; they are tried in turn.
    pub addresses: Vec<String>,
    /// Credentials.
    pub login: Login,
    /// Time for connecting and logging in.
    pub connect_timeout: Duration,
    /// Time within which the oldest request in flight must be answered, or bytes of an answer must arrive; after it the
    /// connection counts as broken.
    pub response_timeout: Duration,
    /// Time without a request after which a ping shows both sides that the connection lives.
    pub keepalive: Duration,
    /// Delays between attempts to connect.
    pub backoff: Backoff,
    /// Number of rounds over all addresses after which the first connection fails for good. Later connections are
    /// tried without end.
    pub first_rounds: u32,
    /// Ask the server for the places of batches, before anything else is sent.
    pub reports_offsets: bool,
}

/// Task for the caller of a session. Tasks are in order.
#[derive(Debug)]
pub enum Effect<T> {
    /// Open a transport to the address with this index, and report [`Session::connected`] or
    /// [`Session::connect_failed`].
    Connect(usize),
    /// Write a frame; report [`Session::written`] when its last byte is written.
    Write(Frame),
    /// Close the transport.
    Close,
    /// The login has succeeded on the connection with this number, which grows with each connection.
    Opened(u64),
    /// The connection that was open has broken.
    Lost {
        /// Reason.
        reason: String,
    },
    /// The session ends: the login was refused, or no server was reached at the first attempt.
    Failed(Failure),
    /// A request is answered.
    Answered {
        /// Token of the request.
        token: T,
        /// The answer.
        outcome: Outcome,
    },
    /// The server reports changes of watched partitions.
    Notified(Bytes),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waiting until it is time to connect.
    Waiting { until: Duration },
    /// The transport is being opened.
    Connecting,
    /// The transport is open; the login is in flight.
    Greeting { until: Duration },
    /// Logged in.
    Open,
    /// The server ends the session: what is in flight may still be answered.
    Draining { until: Duration },
    /// Ended for good.
    Ended,
}

/// A session: see the crate's documentation. `T` is a token that identifies a request to its owner.
#[derive(Debug)]
pub struct Session<T> {
    config: Config,
    state: State,
    address: usize,
    failed_attempts: usize,
    generation: u64,
    was_open: bool,
    entries: Entries<T>,
    effects: VecDeque<Effect<T>>,
    /// Time of the last byte that was received.
    heard_at: Duration,
    /// Time of the last request that was sent.
    spoken_at: Duration,
    extensions: Vec<u32>,
    is_watching: bool,
}

impl<T> Session<T> {
    /// Create a session, which begins to connect at once.
    pub fn new(config: Config, now: Duration) -> Self {
        assert!(!config.addresses.is_empty(), "a session has an address");
        Self {
            config,
            state: State::Waiting { until: now },
            address: 0,
            failed_attempts: 0,
            generation: 0,
            was_open: false,
            entries: Entries::default(),
            effects: VecDeque::new(),
            heard_at: now,
            spoken_at: now,
            extensions: Vec::new(),
            is_watching: false,
        }
    }

    /// Number of the present or last connection; 0 before the first.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Return whether requests are sent at once.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Return whether the server of the present connection has an extension command.
    pub fn offers(&self, code: CommandCode) -> bool {
        self.extensions.binary_search(&code.code()).is_ok()
    }

    /// Number of requests that are not answered yet.
    pub fn pending(&self) -> usize {
        self.entries.len()
    }

    /// Return whether the server owes answers.
    pub fn awaits_answers(&self) -> bool {
        self.entries.in_flight() > 0
    }

    /// Submit a request. It is sent in the order of submission, as soon as the session is open.
    pub fn submit(&mut self, request: Request, token: T, now: Duration) {
        if self.state == State::Ended {
            let outcome = Err(Failure::Closed);
            return self.effects.push_back(Effect::Answered { token, outcome });
        }
        if let Repeat::Bound(generation) = request.repeat
            && (generation != self.generation || self.state != State::Open)
        {
            let reason = "the connection was lost before".to_owned();
            let outcome = Err(Failure::NotSent { reason });
            return self.effects.push_back(Effect::Answered { token, outcome });
        }
        self.entries.queue(request, Owner::Caller(token), now);
        self.send_queued(now);
    }

    /// The transport is open.
    pub fn connected(&mut self, now: Duration) {
        if self.state != State::Connecting {
            return;
        }
        self.generation += 1;
        self.heard_at = now;
        self.spoken_at = now;
        self.is_watching = false;
        self.extensions.clear();
        self.state = State::Greeting {
            until: now + self.config.connect_timeout,
        };
        for (step, command) in self.config.login.steps(self.config.reports_offsets) {
            match Request::new(&command, Repeat::Bound(self.generation)) {
                Ok(request) => {
                    let frame = self.entries.send_first(request, Owner::Login(step), now);
                    self.effects.push_back(Effect::Write(frame));
                }
                Err(failure) => return self.fail(&failure),
            }
        }
    }

    /// The transport could not be opened.
    pub fn connect_failed(&mut self, reason: &str, now: Duration) {
        if self.state == State::Connecting {
            self.attempt_failed(reason, now);
        }
    }

    /// The last byte of the oldest unwritten frame was written.
    pub fn written(&mut self) {
        self.entries.note_written();
    }

    /// Bytes of a frame have arrived: over a slow network a long answer takes longer than the response timeout.
    pub fn heard(&mut self, now: Duration) {
        self.heard_at = now;
    }

    /// A frame has arrived.
    pub fn received(&mut self, header: ResponseHeader, payload: Bytes, now: Duration) {
        if !self.is_connected() {
            return;
        }
        self.heard_at = now;
        if self.is_watching && header.status.is_ok() && !payload.is_empty() {
            self.note_service();
            return self.effects.push_back(Effect::Notified(payload));
        }
        let Some(entry) = self.entries.take_oldest() else {
            // Unsolicited: the server announces that it stops.
            let reason = header.status.description().to_owned();
            return self.break_off(&reason, now);
        };
        match entry.owner {
            Owner::Login(step) => self.greeted(step, header.status, &payload, now),
            // The server ends the session; there is nothing to send again.
            Owner::Ping | Owner::Abandoned if ends_session(header.status) => self.drain(now),
            Owner::Ping | Owner::Abandoned => self.note_service(),
            Owner::Caller(_) => self.answered(entry, header.status, payload, now),
        }
        if matches!(self.state, State::Draining { .. }) && self.entries.in_flight() == 0 {
            self.break_off("the server has ended the session", now);
        }
    }

    fn answered(&mut self, entry: Entry<T>, status: Status, payload: Bytes, now: Duration) {
        let is_in_doubt = status == Status::OUTCOME_UNKNOWN;
        let must_not_repeat = is_in_doubt && entry.request.repeat == Repeat::IfUnsent;
        if ends_session(status) || is_in_doubt && !must_not_repeat {
            // The request was refused because of the session, not because of itself.
            self.drain(now);
            if let Some((token, outcome)) = self.entries.put_back(entry, "the session has ended") {
                self.effects.push_back(Effect::Answered { token, outcome });
            }
            return;
        }
        let code = entry.request.code;
        let Owner::Caller(token) = entry.owner else {
            return;
        };
        self.note_service();
        let outcome = if status.is_ok() {
            Ok(payload)
        } else if must_not_repeat {
            let reason = status.description().to_owned();
            Err(Failure::Unanswered { reason })
        } else {
            Err(Failure::Refused {
                code,
                status,
                explanation: String::from_utf8_lossy(&payload).into_owned(),
            })
        };
        self.effects.push_back(Effect::Answered { token, outcome });
    }

    fn greeted(&mut self, step: Step, status: Status, payload: &[u8], now: Duration) {
        match step {
            Step::Capabilities => {
                if status.is_ok()
                    && let Ok(found) = headrace_wire::response::Capabilities::decode(payload)
                {
                    self.extensions = found.codes;
                }
            }
            // A server without the extension refuses it, and works without it.
            Step::Extension => {}
            Step::Login if status.is_ok() => {
                self.state = State::Open;
                self.was_open = true;
                self.effects.push_back(Effect::Opened(self.generation));
                self.send_queued(now);
            }
            Step::Login if is_temporary(status) => self.break_off(status.description(), now),
            // Others have used up the attempts of the user or the address: this says nothing about the credentials.
            Step::Login
                if status == Status::TOO_MANY_LOGIN_ATTEMPTS
                    && (self.was_open || self.config.first_rounds == u32::MAX) =>
            {
                self.break_off(status.description(), now);
            }
            Step::Login => self.fail(&Failure::LoginRefused { status }),
        }
    }

    /// The transport has ended.
    pub fn disconnected(&mut self, reason: &str, now: Duration) {
        if self.is_connected() {
            self.break_off(reason, now);
        }
    }

    /// Let time pass: deadlines, keep-alive, attempts to connect.
    pub fn tick(&mut self, now: Duration) {
        for (token, after, is_sent) in self.entries.expire(now) {
            let outcome = Err(Failure::Late { after, is_sent });
            self.effects.push_back(Effect::Answered { token, outcome });
        }
        match self.state {
            State::Waiting { until } if until <= now => {
                self.state = State::Connecting;
                self.effects.push_back(Effect::Connect(self.address));
            }
            State::Greeting { until } if until <= now => {
                let timeout = self.config.connect_timeout;
                self.break_off(&format!("no answer to the login within {timeout:?}"), now);
            }
            State::Draining { until } if until <= now => {
                self.break_off("the server has ended the session", now);
            }
            State::Open => self.check_liveness(now),
            _ => {}
        }
    }

    fn check_liveness(&mut self, now: Duration) {
        let timeout = self.config.response_timeout;
        if let Some(since) = self.entries.waiting_since()
            && since.max(self.heard_at) + timeout <= now
        {
            return self.break_off(&format!("no answer within {timeout:?}"), now);
        }
        if self.entries.in_flight() == 0
            && self.spoken_at + self.config.keepalive <= now
            && let Ok(ping) = Request::new(&Command::Ping, Repeat::Bound(self.generation))
        {
            let frame = self.entries.send_first(ping, Owner::Ping, now);
            self.spoken_at = now;
            self.effects.push_back(Effect::Write(frame));
        }
    }

    /// Time at which [`Self::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Duration> {
        let own = match self.state {
            State::Waiting { until } | State::Greeting { until } | State::Draining { until } => {
                Some(until)
            }
            State::Open => Some(match self.entries.waiting_since() {
                Some(since) => since.max(self.heard_at) + self.config.response_timeout,
                None => self.spoken_at + self.config.keepalive,
            }),
            State::Connecting | State::Ended => None,
        };
        let entries = self.entries.next_deadline();
        own.into_iter().chain(entries).min()
    }

    /// Take the next effect.
    pub fn next_effect(&mut self) -> Option<Effect<T>> {
        self.effects.pop_front()
    }

    /// End the session: what is not answered fails.
    pub fn close(&mut self) {
        self.fail(&Failure::Closed);
    }

    /// Send what waits, in order.
    fn send_queued(&mut self, now: Duration) {
        while self.state == State::Open
            && let Some((code, frame)) = self.entries.send_next(now)
        {
            self.is_watching |= code == CommandCode::WatchPartitions.code();
            self.spoken_at = now;
            self.effects.push_back(Effect::Write(frame));
        }
    }

    fn is_connected(&self) -> bool {
        matches!(
            self.state,
            State::Greeting { .. } | State::Open | State::Draining { .. }
        )
    }

    /// The server does more than to let the client log in: the next attempt to connect begins without a pause. A server
    /// that ends every session at its first request is not asked without pauses.
    fn note_service(&mut self) {
        self.failed_attempts = 0;
        self.config.backoff.reset();
    }

    fn drain(&mut self, now: Duration) {
        if self.state == State::Open {
            self.state = State::Draining {
                until: now + DRAIN_TIME,
            };
        }
    }

    /// Give the present connection up, and connect again later.
    fn break_off(&mut self, reason: &str, now: Duration) {
        let was_open = matches!(self.state, State::Open | State::Draining { .. });
        self.effects.push_back(Effect::Close);
        for (token, outcome) in self.entries.connection_lost(reason) {
            self.effects.push_back(Effect::Answered { token, outcome });
        }
        if was_open {
            self.effects.push_back(Effect::Lost {
                reason: reason.to_owned(),
            });
        }
        self.attempt_failed(reason, now);
    }

    fn attempt_failed(&mut self, reason: &str, now: Duration) {
        self.failed_attempts += 1;
        let addresses = self.config.addresses.len();
        let rounds = usize::try_from(self.config.first_rounds).unwrap_or(usize::MAX);
        if !self.was_open && self.failed_attempts >= addresses.saturating_mul(rounds.max(1)) {
            let reason = format!(
                "cannot connect to {}: {reason}",
                self.config.addresses.join(", ")
            );
            return self.fail(&Failure::Unreachable { reason });
        }
        self.address = (self.address + 1) % addresses;
        // Another address is tried at once; a round without success is followed by a pause.
        let until = if self.failed_attempts.is_multiple_of(addresses) {
            now + self.config.backoff.next_delay()
        } else {
            now
        };
        self.state = State::Waiting { until };
    }

    fn fail(&mut self, failure: &Failure) {
        if self.state == State::Ended {
            return;
        }
        self.state = State::Ended;
        self.effects.push_back(Effect::Close);
        for (token, outcome) in self.entries.end(failure) {
            self.effects.push_back(Effect::Answered { token, outcome });
        }
        self.effects.push_back(Effect::Failed(failure.clone()));
    }
}

/// Return whether a status concerns the session as a whole: the request was not executed, and is after another login.
fn ends_session(status: Status) -> bool {
    matches!(
        status,
        Status::DISCONNECTED | Status::STALE_CLIENT | Status::UNAUTHENTICATED
    )
}

/// Return whether a login that was refused with this status can succeed later.
fn is_temporary(status: Status) -> bool {
    status.info().is_some_and(|info| info.retryable)
}

#[cfg(test)]
mod tests;
