//! Clients: connections to the first process, requests and responses.

use std::net::SocketAddr;

use headrace_model::UserId;
use headrace_shard::{Arrival, Input};
use headrace_wire::{
    Command, Status,
    frame::{RESPONSE_HEADER_BYTES, ResponseHeader},
    response::Polled,
};

use super::{
    GATEWAY, World,
    requests::{PASSWORD, batch, login, to_partition},
    wire::Wire,
};

/// A response as the client sees it.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: Status,
    pub payload: Vec<u8>,
}

impl Reply {
    /// Payloads of a successful poll.
    pub fn payloads(&self) -> Vec<Vec<u8>> {
        assert_eq!(self.status, Status::OK);
        let polled = Polled::decode(&self.payload).expect("the answer to a poll");
        polled
            .messages()
            .map(|message| message.expect("whole").payload().to_vec())
            .collect()
    }
}

impl World {
    /// Open a connection to `shard`.
    pub fn connect(&mut self, shard: usize) -> usize {
        self.connect_by(shard, Arrival::tcp)
    }

    /// Open a connection to `shard` with this arrival.
    pub fn connect_by(
        &mut self,
        shard: usize,
        arrival: impl FnOnce(SocketAddr) -> Arrival,
    ) -> usize {
        let index = self.wires.len();
        let port = 5000 + u16::try_from(index % 1000).expect("small");
        let near = self.end(GATEWAY, shard, (index, 0));
        self.processes[GATEWAY].inputs[shard].push_back(Input::Accepted {
            connection: near.key,
            arrival: arrival(SocketAddr::from(([127, 0, 0, 1], port))),
        });
        self.wires.push(Wire::new(near, None, None));
        self.run();
        index
    }

    /// Open an in-process connection on behalf of `user`.
    pub fn in_process(&mut self, shard: usize, user: u32) -> usize {
        self.connect_by(shard, |_| Arrival::in_process(UserId(user)))
    }

    /// Open a connection and log in with the password.
    pub fn login(&mut self, shard: usize) -> usize {
        let link = self.connect(shard);
        self.request(link, &login(PASSWORD));
        assert_eq!(self.reply(link).status, Status::OK);
        link
    }

    /// Connect a new client, logged in as root.
    pub fn client(&mut self) -> usize {
        self.client_of(0)
    }

    /// Connect a new client that the listener has logged in.
    pub fn client_of(&mut self, user: u32) -> usize {
        self.connect_by(0, |address| Arrival {
            user: Some(UserId(user)),
            ..Arrival::tcp(address)
        })
    }

    /// Send bytes, and run until nothing happens any more.
    pub fn write(&mut self, link: usize, bytes: &[u8]) {
        self.wires[link].towards[0].extend(bytes);
        self.run();
    }

    /// Send a request.
    pub fn request(&mut self, link: usize, command: &Command<'_>) {
        let mut frame = Vec::new();
        command.try_encode_frame(&mut frame).expect("representable");
        self.write(link, &frame);
    }

    /// Send a request and return its response.
    pub fn ask(&mut self, link: usize, command: &Command<'_>) -> Reply {
        self.request(link, command);
        self.reply(link)
    }

    /// Send a batch.
    pub fn post(&mut self, link: usize, partition: u32, payloads: &[&[u8]]) {
        let batch = batch(payloads);
        let command = Command::SendMessages(to_partition(&batch, partition));
        self.request(link, &command);
    }

    /// Send a batch and return the status.
    pub fn send(&mut self, link: usize, partition: u32, payloads: &[&[u8]]) -> Status {
        self.post(link, partition, payloads);
        self.reply(link).status
    }

    /// Return the next response; panics if there is none.
    pub fn reply(&mut self, link: usize) -> Reply {
        self.try_reply(link).expect("a response")
    }

    /// Return the next response, if there is one.
    pub fn try_reply(&mut self, link: usize) -> Option<Reply> {
        let back = &mut self.wires[link].towards[1];
        let head = back.make_contiguous();
        let header = ResponseHeader::parse(head.first_chunk::<RESPONSE_HEADER_BYTES>()?);
        let end = RESPONSE_HEADER_BYTES + header.length as usize;
        assert!(back.len() >= end, "responses are sent whole");
        let payload = back.drain(..end).skip(RESPONSE_HEADER_BYTES).collect();
        Some(Reply {
            status: header.status,
            payload,
        })
    }

    /// Take all received bytes that were not read yet.
    pub fn take_back(&mut self, link: usize) -> Vec<u8> {
        self.wires[link].towards[1].drain(..).collect()
    }

    /// Number of bytes that the server has not received.
    pub fn bytes_towards(&self, link: usize) -> usize {
        self.wires[link].towards[0].len()
    }

    /// Return the shard that owns the connection now.
    pub fn shard_of(&self, link: usize) -> usize {
        self.wires[link].near().shard
    }

    /// Return whether the server has closed the connection.
    pub fn is_closed(&self, link: usize) -> bool {
        self.wires[link].near().is_closed
    }

    /// Return whether the server has shut down its sending side.
    pub fn is_finished(&self, link: usize) -> bool {
        self.wires[link].is_ended[1]
    }

    /// Keep this client connected after the server has shut down its sending side.
    pub fn stay(&mut self, link: usize) {
        self.wires[link].stays = true;
    }

    /// Close the client's end.
    pub fn hang_up(&mut self, link: usize) {
        let near = self.wires[link].near_mut();
        let (buffer, ..) = near.receive.take().expect("a receive");
        let (shard, connection) = (near.shard, near.key);
        self.processes[GATEWAY].inputs[shard].push_back(Input::Received {
            connection,
            buffer,
            count: None,
        });
        self.run();
    }

    /// Stop reading on the client: no send to it completes.
    pub fn hold_sends(&mut self, link: usize) {
        self.wires[link].is_deaf = true;
    }

    /// Take what is being sent to a client that does not read, and nothing more.
    pub fn release_sends_once(&mut self, link: usize) {
        let near = self.wires[link].near_mut();
        if near.sending.take().is_some() {
            let (shard, connection) = (near.shard, near.key);
            let sent = true;
            self.processes[GATEWAY].inputs[shard].push_back(Input::Sent { connection, sent });
        }
        self.run();
    }

    /// Resume reading on the client.
    pub fn release_sends(&mut self, link: usize) {
        self.wires[link].is_deaf = false;
        self.run();
    }
}
