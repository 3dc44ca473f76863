//! Pipelining of several batches on one connection.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use headrace_wire::{CommandCode, Status};

use crate::{Client, ClientError, PreparedBatch};

/// Sends batches without waiting for each answer.
///
/// The protocol has no request ids: the n-th answer belongs to the n-th request, so answers are matched to `tag`s in
/// order. A server processes the requests of a connection one after the other; pipelining saves the time between an
/// answer and the next request. Drop a pipeline only when it is idle, or drop the client with it.
#[derive(Debug)]
pub struct Pipeline<'c, T> {
    client: &'c mut Client,
    window: usize,
    in_flight: VecDeque<T>,
}

/// The answer to one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<T> {
    /// Tag given to [`Pipeline::send`].
    pub tag: T,
    /// Status if the server refused the batch. Later batches are executed nevertheless.
    pub outcome: Result<(), Status>,
}

impl<'c, T> Pipeline<'c, T> {
    /// Create a pipeline with at most `window` unanswered batches.
    pub fn new(client: &'c mut Client, window: NonZeroUsize) -> Self {
        Self {
            client,
            window: window.get(),
            in_flight: VecDeque::with_capacity(window.get()),
        }
    }

    /// Number of unanswered batches.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Return whether [`Self::send`] has to wait for an answer first.
    pub fn is_full(&self) -> bool {
        self.in_flight.len() >= self.window
    }

    /// Send a batch. If the window is full, wait for the oldest answer first, and return it.
    pub fn send(
        &mut self,
        batch: &PreparedBatch,
        tag: T,
    ) -> Result<Option<Answer<T>>, ClientError> {
        let answer = if self.is_full() {
            self.receive()?
        } else {
            None
        };
        self.client.write_batch(batch)?;
        self.in_flight.push_back(tag);
        Ok(answer)
    }

    /// Wait for the oldest answer; `None` if no batch is in flight.
    pub fn receive(&mut self) -> Result<Option<Answer<T>>, ClientError> {
        let Some(tag) = self.in_flight.pop_front() else {
            return Ok(None);
        };
        let outcome = match self.client.read_empty_answer(CommandCode::SendMessages) {
            Ok(()) => Ok(()),
            Err(ClientError::Refused { status, .. }) => Err(status),
            Err(error) => return Err(error),
        };
        Ok(Some(Answer { tag, outcome }))
    }
}
