//! Extensions of Headrace servers to the binary protocol.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use headrace_wire::command::{WaitMessages, WatchPartitions};
use headrace_wire::response::{Capabilities, WatchedPartition, decode_list};
use headrace_wire::{Command, CommandCode, Status};

use crate::client::decode;
use crate::{Client, ClientError, Polled, ResponseBuffer};

impl Client {
    /// Query the server's capabilities. Needs no login; a server without extensions refuses with status 3.
    pub fn capabilities(&mut self) -> Result<Capabilities, ClientError> {
        let command = Command::Capabilities;
        decode(&command, self.request(&command)?, Capabilities::decode)
    }

    /// Request explanations of refusals beyond the status, if the server supports them. Needs no login.
    pub fn explain_refusals(&mut self) -> Result<(), ClientError> {
        match self.call(&Command::ExplainRefusals) {
            // The server does not know the command.
            Err(ClientError::Refused {
                status: Status::INVALID_COMMAND,
                ..
            }) => Ok(()),
            result => result,
        }
    }

    /// Read messages into `buffer`, waiting for them while fewer than requested are available.
    ///
    /// The timeout for the answer starts when the time of the wait has expired.
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

    /// Begin to wait. Until [`Self::end_wait`] no other request can be sent.
    pub fn begin_wait(&mut self, request: &WaitMessages<'_>) -> Result<(), ClientError> {
        self.link.send_command(&Command::ReadMessages(*request))
    }

    /// Return whether the answer has begun to arrive, after at most `timeout`.
    pub fn is_wait_over(&mut self, timeout: Duration) -> Result<bool, ClientError> {
        self.link.has_answer(CommandCode::ReadMessages, timeout)
    }

    /// Receive the answer to [`Self::begin_wait`].
    pub fn end_wait<'b>(
        &mut self,
        buffer: &'b mut ResponseBuffer,
    ) -> Result<Polled<'b>, ClientError> {
        self.receive_read(buffer)
    }
}

/// A connection that receives notifications about partitions.
#[derive(Debug)]
pub struct Watcher {
    client: Client,
    buffer: ResponseBuffer,
    /// Notifications that arrived before an answer.
    pending: VecDeque<WatchedPartition>,
}

impl Watcher {
    /// Dedicate a connection with a completed login to notifications.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            buffer: ResponseBuffer::default(),
            pending: VecDeque::new(),
        }
    }

    /// Add or remove watched partitions. The state of each added partition is reported at once.
    pub fn change(&mut self, request: &WatchPartitions<'_>) -> Result<(), ClientError> {
        let command = Command::WatchPartitions(request.clone());
        self.client.link.send_command(&command)?;
        self.receive_empty(CommandCode::WatchPartitions)
    }

    /// Send a heartbeat.
    pub fn ping(&mut self) -> Result<(), ClientError> {
        self.client.link.send_command(&Command::Ping)?;
        self.receive_empty(CommandCode::Ping)
    }

    /// Receive notifications, the newest of each partition last; empty after `timeout` without any.
    pub fn next(&mut self, timeout: Duration) -> Result<Vec<WatchedPartition>, ClientError> {
        let code = CommandCode::WatchPartitions;
        if self.pending.is_empty() && self.client.link.has_answer(code, timeout)? {
            self.read(code)?;
        }
        Ok(self.pending.drain(..).collect())
    }

    fn receive_empty(&mut self, code: CommandCode) -> Result<(), ClientError> {
        while self.read(code)? {}
        Ok(())
    }

    /// Read one frame. Returns whether it was a notification: notifications are never empty, as answers always are.
    fn read(&mut self, code: CommandCode) -> Result<bool, ClientError> {
        self.client.link.receive_one(code, &mut self.buffer)?;
        let payload = self.buffer.payload();
        let entries: Vec<WatchedPartition> =
            decode_list(payload).map_err(|source| ClientError::Malformed {
                command: CommandCode::WatchPartitions,
                source,
            })?;
        self.pending.extend(entries);
        Ok(!payload.is_empty())
    }
}
