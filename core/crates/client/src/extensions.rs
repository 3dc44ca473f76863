//! What Headrace servers offer beyond the classic protocol.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use headrace_wire::command::{WaitMessages, WatchPartitions};
use headrace_wire::response::{Capabilities, WatchedPartition, decode_list};
use headrace_wire::{Command, CommandCode, Status};

use crate::client::decode;
use crate::{Client, ClientError, Polled, ResponseBuffer};

impl Client {
    /// What the server offers. Needs no login; a server without extensions refuses with status 3.
    pub fn capabilities(&mut self) -> Result<Capabilities, ClientError> {
        let command = Command::Capabilities;
        decode(&command, self.request(&command)?, Capabilities::decode)
    }

    /// Have the server say more of refusals than their status, as far as it does so at all. Needs no login.
    pub fn explain_refusals(&mut self) -> Result<(), ClientError> {
        match self.call(&Command::ExplainRefusals) {
            // It does not know the command.
            Err(ClientError::Refused {
                status: Status::INVALID_COMMAND,
                ..
            }) => Ok(()),
            result => result,
        }
    }

    /// Read messages into `buffer`, and wait for them as long as there are fewer than asked for.
    ///
    /// The limit for answers begins when the time of the wait is over.
    pub fn wait<'b>(
        &mut self,
        request: &WaitMessages<'_>,
        buffer: &'b mut ResponseBuffer,
    ) -> Result<Polled<'b>, ClientError> {
        let begin = Instant::now();
        self.begin_wait(request)?;
        let limit = self.link.response_timeout();
        let wait = Duration::from_micros(request.maximum_wait_micros);
        while !self.is_wait_over(limit.map_or(wait, |limit| wait.saturating_add(limit)))? {
            if let Some(limit) = limit
                && begin.elapsed() >= wait.saturating_add(limit)
            {
                return Err(self.link.time_out(CommandCode::ReadMessages, limit));
            }
        }
        self.end_wait(buffer)
    }

    /// Begin to wait. Until [`Self::end_wait`] nothing else can be asked.
    pub fn begin_wait(&mut self, request: &WaitMessages<'_>) -> Result<(), ClientError> {
        self.link.send_command(&Command::ReadMessages(*request))
    }

    /// Whether the answer has begun to arrive, within `patience`.
    pub fn is_wait_over(&mut self, patience: Duration) -> Result<bool, ClientError> {
        self.link.has_answer(CommandCode::ReadMessages, patience)
    }

    /// The answer to what [`Self::begin_wait`] asked.
    pub fn end_wait<'b>(
        &mut self,
        buffer: &'b mut ResponseBuffer,
    ) -> Result<Polled<'b>, ClientError> {
        self.receive_read(buffer)
    }
}

/// A connection that is notified of what happens to partitions.
#[derive(Debug)]
pub struct Watcher {
    client: Client,
    buffer: ResponseBuffer,
    /// Read on the way to an answer.
    told: VecDeque<WatchedPartition>,
}

impl Watcher {
    /// Use a connection, logged in, for nothing else from now on.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            buffer: ResponseBuffer::default(),
            told: VecDeque::new(),
        }
    }

    /// Watch partitions, or do not any more. Each one that is added is told at once.
    pub fn change(&mut self, request: &WatchPartitions<'_>) -> Result<(), ClientError> {
        let command = Command::WatchPartitions(request.clone());
        self.client.link.send_command(&command)?;
        self.receive_empty(CommandCode::WatchPartitions)
    }

    /// Tell the server that this client is alive.
    pub fn ping(&mut self) -> Result<(), ClientError> {
        self.client.link.send_command(&Command::Ping)?;
        self.receive_empty(CommandCode::Ping)
    }

    /// What has happened, the newest of each partition last; nothing after `patience` without news.
    pub fn next(&mut self, patience: Duration) -> Result<Vec<WatchedPartition>, ClientError> {
        let code = CommandCode::WatchPartitions;
        if self.told.is_empty() && self.client.link.has_answer(code, patience)? {
            self.read(code)?;
        }
        Ok(self.told.drain(..).collect())
    }

    fn receive_empty(&mut self, code: CommandCode) -> Result<(), ClientError> {
        while self.read(code)? {}
        Ok(())
    }

    /// Read one frame. Returns whether it was a notification: they are never empty, as answers always are.
    fn read(&mut self, code: CommandCode) -> Result<bool, ClientError> {
        self.client.link.receive_one(code, &mut self.buffer)?;
        let payload = self.buffer.payload();
        let entries: Vec<WatchedPartition> =
            decode_list(payload).map_err(|source| ClientError::Malformed {
                command: CommandCode::WatchPartitions,
                source,
            })?;
        self.told.extend(entries);
        Ok(!payload.is_empty())
    }
}
