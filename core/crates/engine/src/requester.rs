//! Requests and their answers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use headrace_sdk_core::{
    DirectBatch, Failure, Outcome, OwnedIdentifier, Request, SendFailure, Stored,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::driver::{Driver, Event};
use crate::engine::{Engine, SessionSettings};
use crate::producer::Delivery;
use crate::promise::Promise;

type Answer = Arc<Promise<Outcome>>;

/// Number of notifications that are kept; older ones are dropped.
const NOTIFICATIONS_MAX: usize = 1024;

/// Notifications that are not taken yet, oldest first.
#[derive(Debug, Default)]
struct Notifications(Mutex<VecDeque<Bytes>>);

impl Notifications {
    fn push(&self, payload: Bytes) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == NOTIFICATIONS_MAX {
            kept.pop_front();
        }
        kept.push_back(payload);
    }

    fn take(&self) -> Vec<Bytes> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.drain(..).collect()
    }
}

/// A session for single requests. Dropping it ends the session.
#[derive(Debug)]
pub struct Requester {
    requests: UnboundedSender<(Request, Answer)>,
    opened: Arc<Promise<Result<(), Failure>>>,
    /// Reason of the session's end.
    ended: Arc<Promise<Failure>>,
    notifications: Arc<Notifications>,
}

impl Requester {
    /// Begin a session.
    pub fn new(engine: &Engine, settings: Arc<SessionSettings>) -> Self {
        let _clock = engine.clock();
        let (requests, receiver) = unbounded_channel();
        let opened = Arc::new(Promise::default());
        let ended = Arc::new(Promise::default());
        let notifications = Arc::new(Notifications::default());
        let task = run(
            Driver::new(settings),
            receiver,
            Arc::clone(&opened),
            Arc::clone(&ended),
            Arc::clone(&notifications),
        );
        engine.spawn(task);
        Self {
            requests,
            opened,
            ended,
            notifications,
        }
    }

    /// Take the notifications about watched partitions that have arrived. Those of a request are there before the answer
    /// to a later one, if they were sent before it.
    pub fn take_notifications(&self) -> Vec<Bytes> {
        self.notifications.take()
    }

    /// The result of the first attempt to connect and to log in.
    pub fn opened(&self) -> Arc<Promise<Result<(), Failure>>> {
        Arc::clone(&self.opened)
    }

    /// Submit a request.
    pub fn submit(&self, request: Request) -> Arc<Promise<Outcome>> {
        let answer = Answer::default();
        if let Err(unsent) = self.requests.send((request, Arc::clone(&answer))) {
            let (_, answer) = unsent.0;
            answer.fulfil(Err(self.ended.get().unwrap_or(Failure::Closed)));
        }
        answer
    }

    /// Send messages to a topic, each partition's in one request. Returns the results with the numbers of their
    /// messages.
    pub fn send(
        &self,
        batch: DirectBatch,
        stream: &OwnedIdentifier,
        topic: &OwnedIdentifier,
        timeout: Duration,
    ) -> Vec<(Arc<Delivery>, u32)> {
        let groups = batch.into_groups(stream, topic, timeout).into_iter();
        let sent = groups.map(|group| {
            let delivery = Arc::new(Delivery::default());
            let result = Arc::clone(&delivery);
            let answer = self.submit(group.request);
            let answered = Arc::clone(&answer);
            answer.on_fulfilled(move || {
                let outcome = answered.get().unwrap_or(Err(Failure::Closed));
                let stored = outcome.map(|payload| Stored::from_answer(&payload, group.partition));
                result.fulfil(stored.map_err(SendFailure::Request));
            });
            (delivery, group.messages_count)
        });
        sent.collect()
    }

    /// Store messages for a topic in stages, one of each partition. Returns partitions, numbers of messages, and answers.
    pub fn stage(
        &self,
        batch: DirectBatch,
        stream: &OwnedIdentifier,
        topic: &OwnedIdentifier,
        timeout: Duration,
        lifetime_seconds: u32,
    ) -> Vec<(u32, u32, Arc<Promise<Outcome>>)> {
        let groups = batch.into_stages(stream, topic, timeout, lifetime_seconds);
        let staged = groups.into_iter().map(|group| {
            let answer = self.submit(group.request);
            (group.partition, group.messages_count, answer)
        });
        staged.collect()
    }
}

async fn run(
    mut driver: Driver<Answer>,
    mut requests: UnboundedReceiver<(Request, Answer)>,
    opened: Arc<Promise<Result<(), Failure>>>,
    ended: Arc<Promise<Failure>>,
    notifications: Arc<Notifications>,
) {
    let failure = loop {
        tokio::select! {
            event = driver.next() => match event {
                Event::Opened(_) => opened.fulfil(Ok(())),
                Event::Answered { token, outcome } => token.fulfil(outcome),
                Event::Failed(failure) => break failure,
                Event::Notified(payload) => notifications.push(payload),
                Event::Lost => {}
            },
            request = requests.recv() => match request {
                Some((request, answer)) => driver.submit(request, answer),
                None => driver.close(),
            },
        }
    };
    ended.fulfil(failure.clone());
    opened.fulfil(Err(failure.clone()));
    requests.close();
    while let Some((_, answer)) = requests.recv().await {
        answer.fulfil(Err(failure.clone()));
    }
}
