//! Requests and their answers.

use std::sync::Arc;

use headrace_session::{Failure, Outcome, Request};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::driver::{Driver, Event};
use crate::engine::{Engine, SessionSettings};
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
