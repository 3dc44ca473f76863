//! A client of a gateway.

use std::{
    io::{Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use headrace_wire::{
    Command, Consumer, ConsumerKind, Identifier, Partitioning, PollingStrategy, Status,
    batch::BatchBuilder,
    command::{PollMessages, WaitMessages},
    frame::{RESPONSE_HEADER_BYTES, ResponseHeader},
    response::Polled,
};

use crate::links::cluster::TIMEOUT;

pub struct Session {
    stream: UnixStream,
}

pub struct Reply {
    pub status: Status,
    pub payload: Vec<u8>,
}

/// Extract the payloads of the messages of a poll.
pub fn messages(payload: &[u8]) -> Vec<Vec<u8>> {
    let polled = Polled::decode(payload).unwrap();
    polled
        .messages()
        .map(|message| message.unwrap().payload().to_vec())
        .collect()
}

fn poll(id: u32, strategy: PollingStrategy) -> PollMessages<'static> {
    PollMessages {
        consumer: Consumer {
            kind: ConsumerKind::Consumer,
            id: Identifier::Numeric(1),
        },
        stream: Identifier::Numeric(0),
        topic: Identifier::Numeric(0),
        partition_id: Some(id),
        strategy,
        count: 100_000,
        auto_commit: false,
    }
}

impl Session {
    pub fn new(socket: OwnedFd) -> Self {
        let stream = UnixStream::from(socket);
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Self { stream }
    }

    pub fn say(&mut self, command: &Command<'_>) {
        let mut frame = Vec::new();
        command.try_encode_frame(&mut frame).expect("representable");
        // The end of a connection is noticed by the next read.
        let _ = self.stream.write_all(&frame);
    }

    /// Read the next response; `None`: the connection has ended.
    pub fn reply(&mut self) -> Option<Reply> {
        let mut head = [0; RESPONSE_HEADER_BYTES];
        if let Err(error) = self.stream.read_exact(&mut head) {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "no answer");
            return None;
        }
        let header = ResponseHeader::parse(&head);
        let mut payload = vec![0; header.length as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Some(Reply {
            status: header.status,
            payload,
        })
    }

    pub fn ask(&mut self, command: &Command<'_>) -> Option<Reply> {
        self.say(command);
        self.reply()
    }

    pub fn send_only(&mut self, id: u32, payloads: &[&[u8]]) {
        let mut batch = BatchBuilder::new();
        for payload in payloads {
            batch.push(0, 1, payload, &[]).expect("small");
        }
        let request = batch.request(
            Identifier::Numeric(0),
            Identifier::Numeric(0),
            Partitioning::PartitionId(id),
        );
        self.say(&Command::SendMessages(request));
    }

    pub fn send(&mut self, id: u32, payloads: &[&[u8]]) -> Option<Status> {
        self.send_only(id, payloads);
        self.reply().map(|reply| reply.status)
    }

    /// Poll all messages of a partition.
    pub fn poll(&mut self, id: u32) -> Vec<Vec<u8>> {
        let reply = self.ask(&Command::PollMessages(poll(id, PollingStrategy::First)));
        let reply = reply.expect("an answer");
        assert_eq!(reply.status, Status::OK);
        messages(&reply.payload)
    }

    /// Send a request that waits for messages from an offset on.
    pub fn wait(&mut self, id: u32, offset: u64) {
        self.say(&Command::WaitMessages(WaitMessages {
            poll: poll(id, PollingStrategy::Offset(offset)),
            minimum_bytes: 1,
            maximum_wait_micros: 60_000_000,
        }));
    }
}
