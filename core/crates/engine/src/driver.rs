//! A session over a socket.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headrace_sdk_core::{Effect, Failure, Outcome, Request, Session};
use headrace_wire::frame::{RESPONSE_HEADER_BYTES, ResponseHeader};
use tokio::time::{Instant, sleep_until};

use crate::engine::{Change, SessionSettings};
use crate::inbox::{INBOX_BYTES, Inbox};
use crate::outbox::Outbox;
use crate::transport::{Progress, Transport};
use crate::virtual_time::Watched;

/// Longest answer that is accepted: a batch of messages as large as a server sends, with a margin.
const ANSWER_BYTES_MAX: usize = 1 << 30;
/// Longest refusal that is accepted. The first bytes of an HTTP response would be one of 800 MB.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

type Opening = Pin<Box<dyn Future<Output = io::Result<Transport>> + Send>>;

/// Event of a session.
#[derive(Debug)]
pub(crate) enum Event<T> {
    Opened(u64),
    Lost,
    Failed(Failure),
    Answered { token: T, outcome: Outcome },
    Notified(Bytes),
}

/// A session with its socket.
pub(crate) struct Driver<T> {
    session: Session<T>,
    settings: Arc<SessionSettings>,
    began: Instant,
    opening: Option<Opening>,
    transport: Option<Transport>,
    inbox: Inbox,
    outbox: Outbox,
    /// State for virtual time, if time is virtual.
    watched: Option<Watched>,
}

impl<T> Driver<T> {
    pub(crate) fn new(settings: Arc<SessionSettings>) -> Self {
        let session = Session::new(settings.session_config(), Duration::ZERO);
        Self {
            session,
            settings,
            began: Instant::now(),
            opening: None,
            transport: None,
            inbox: Inbox::new(),
            outbox: Outbox::default(),
            watched: crate::virtual_time::active().map(|_| Watched::default()),
        }
    }

    /// Time since the driver began.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn submit(&mut self, request: Request, token: T) {
        let now = self.now();
        self.session.submit(request, token, now);
    }

    pub(crate) fn session(&self) -> &Session<T> {
        &self.session
    }

    /// End the session; [`Event::Failed`] follows the answers of what is in flight.
    pub(crate) fn close(&mut self) {
        self.session.close();
    }

    /// End the session at once. Returns what was not reported yet.
    pub(crate) fn end(&mut self) -> Vec<(T, Outcome)> {
        self.session.close();
        let mut answers = Vec::new();
        while let Some(effect) = self.session.next_effect() {
            if let Effect::Answered { token, outcome } = effect {
                answers.push((token, outcome));
            }
        }
        answers
    }

    /// Return the next event. May be dropped at any time, and called again.
    pub(crate) async fn next(&mut self) -> Event<T> {
        loop {
            while let Some(effect) = self.session.next_effect() {
                match effect {
                    Effect::Connect(index) => self.open(index),
                    Effect::Write(frame) => self.outbox.push(frame),
                    Effect::Close => self.drop_connection(),
                    Effect::Opened(generation) => {
                        self.settings.observer.report(&Change::Opened);
                        return Event::Opened(generation);
                    }
                    Effect::Lost { reason } => {
                        self.settings.observer.report(&Change::Lost { reason });
                        return Event::Lost;
                    }
                    Effect::Failed(failure) => {
                        if failure != Failure::Closed {
                            let reason = failure.to_string();
                            self.settings.observer.report(&Change::Failed { reason });
                        }
                        return Event::Failed(failure);
                    }
                    Effect::Answered { token, outcome } => {
                        return Event::Answered { token, outcome };
                    }
                    Effect::Notified(payload) => return Event::Notified(payload),
                }
            }
            if self.take_frame() {
                continue;
            }
            self.note_waiting();
            self.step().await;
        }
    }

    fn note_waiting(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.note(self.opening.is_some() || self.session.awaits_answers());
        }
    }

    fn open(&mut self, index: usize) {
        let settings = Arc::clone(&self.settings);
        self.drop_connection();
        self.opening = Some(Box::pin(async move {
            let address = &settings.addresses[index];
            Transport::open(address, settings.connect_timeout)
                .await
                .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))
        }));
    }

    fn drop_connection(&mut self) {
        self.opening = None;
        self.transport = None;
        self.outbox.clear();
        self.inbox = Inbox::new();
    }

    /// Hand a frame to the session if one has arrived. Returns whether something has happened.
    fn take_frame(&mut self) -> bool {
        let received = self.inbox.bytes();
        let Some(header) = received.first_chunk::<RESPONSE_HEADER_BYTES>() else {
            return false;
        };
        let now = self.began.elapsed();
        let header = ResponseHeader::parse(header);
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        let length_max = if header.status.is_ok() {
            ANSWER_BYTES_MAX
        } else {
            REFUSAL_BYTES_MAX
        };
        if length > length_max {
            let reason = format!(
                "an answer announces {length} bytes: this is no server of the binary protocol"
            );
            self.transport = None;
            self.session.disconnected(&reason, now);
            return true;
        }
        let end = RESPONSE_HEADER_BYTES + length;
        let received = received.len();
        if received < end {
            self.inbox.reserve(end - received);
            return false;
        }
        let mut frame = self.inbox.take(end).freeze();
        let payload = frame.split_off(RESPONSE_HEADER_BYTES);
        self.session.received(header, payload, now);
        true
    }

    /// Wait until something happens.
    async fn step(&mut self) {
        let deadline = self.session.next_deadline();
        let now = self.now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            // Also while the server always has something to receive.
            return self.session.tick(now);
        }
        let until = deadline.map(|deadline| self.began + deadline);
        let received = self.inbox.bytes();
        if received.capacity() == received.len() {
            self.inbox.reserve(INBOX_BYTES);
        }
        let (opening, transport) = (&mut self.opening, &mut self.transport);
        let (outbox, inbox) = (&mut self.outbox, self.inbox.bytes());
        tokio::select! {
            biased;
            opened = async { opening.as_mut().expect("checked").await }, if opening.is_some() => {
                self.opening = None;
                let now = self.began.elapsed();
                match opened {
                    Ok(transport) => {
                        self.transport = Some(transport);
                        self.session.connected(now);
                    }
                    Err(error) => self.session.connect_failed(&error.to_string(), now),
                }
            }
            progress = poll_fn(|context| {
                let transport = transport.as_mut().expect("checked");
                transport.poll_progress(context, outbox, inbox)
            }), if transport.is_some() => {
                match progress {
                    Ok(Progress::Received) => self.session.heard(self.began.elapsed()),
                    Ok(Progress::Written) => {
                        for _ in 0..self.outbox.take_completed() {
                            self.session.written();
                        }
                    }
                    Err(error) => {
                        let now = self.began.elapsed();
                        self.transport = None;
                        self.session.disconnected(&error.to_string(), now);
                    }
                }
            }
            () = async { sleep_until(until.expect("checked")).await }, if until.is_some() => {
                let now = self.began.elapsed();
                self.session.tick(now);
            }
            else => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests;
