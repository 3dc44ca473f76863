//! Requests and their answers.

use std::sync::Arc;
use std::time::Duration;

use headrace_session::{
    DirectBatch, Failure, Outcome, OwnedIdentifier, Request, SendFailure, Stored,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::driver::{Driver, Event};
use crate::engine::{Engine, SessionSettings};
use crate::producer::Delivery;
use crate::promise::Promise;

type Answer = Arc<Promise<Outcome>>;

/// A session for single requests. Dropping it ends the session.
#[derive(Debug)]
pub struct Requester {
    requests: UnboundedSender<(Request, Answer)>,
    opened: Arc<Promise<Result<(), Failure>>>,
    /// Reason of the session's end.
    ended: Arc<Promise<Failure>>,
}

impl Requester {
    /// Begin a session.
    pub fn new(engine: &Engine, settings: Arc<SessionSettings>) -> Self {
        let _clock = engine.clock();
        let (requests, receiver) = unbounded_channel();
        let opened = Arc::new(Promise::default());
        let ended = Arc::new(Promise::default());
        let task = run(
            Driver::new(settings),
            receiver,
            Arc::clone(&opened),
            Arc::clone(&ended),
        );
        engine.spawn(task);
        Self {
            requests,
            opened,
            ended,
        }
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
}

async fn run(
    mut driver: Driver<Answer>,
    mut requests: UnboundedReceiver<(Request, Answer)>,
    opened: Arc<Promise<Result<(), Failure>>>,
    ended: Arc<Promise<Failure>>,
) {
    let failure = loop {
        tokio::select! {
            event = driver.next() => match event {
                Event::Opened(_) => opened.fulfil(Ok(())),
                Event::Answered { token, outcome } => token.fulfil(outcome),
                Event::Failed(failure) => break failure,
                Event::Lost | Event::Notified(_) => {}
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
