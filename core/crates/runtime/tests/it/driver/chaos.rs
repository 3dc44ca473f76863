//! Random operations, cancellations and closings: every operation ends exactly once, every byte arrives where it
//! belongs, and no resource leaks.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    os::fd::{AsRawFd, IntoRawFd, RawFd},
    time::{Duration, Instant},
};

use headrace_buffer::Slice;
use headrace_runtime::driver::{DriverChoice, Operation, Outcome};
use rustix::net::sockopt;

use crate::driver::harness::{Host, TIMEOUT};

const SEEDS: u64 = 12;
const STEPS: u32 = 600;
const CONNECTIONS_MAX: usize = 12;

/// A connection; both directions carry the bytes 0, 1, ... 255, 0, ...
struct Connection {
    client: TcpStream,
    socket: RawFd,
    receive: Option<u64>,
    send: Option<u64>,
    /// Next byte of the client's data, as written by the client and as received by the driver.
    written: u8,
    received: u8,
    /// Next byte of the host's data, as sent by the driver and as read by the client.
    sent: u8,
    read: u8,
    /// True if an error or cancellation made the position unknown.
    broken: bool,
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn length(&mut self) -> usize {
        1 << self.below(18)
    }
}

fn counting(next: &mut u8, length: usize) -> Vec<u8> {
    std::iter::repeat_with(|| {
        let byte = *next;
        *next = next.wrapping_add(1);
        byte
    })
    .take(length)
    .collect()
}

fn check(next: &mut u8, bytes: &[u8]) {
    for byte in bytes {
        assert_eq!(byte, next);
        *next = next.wrapping_add(1);
    }
}

pub fn everything_ends_once_whatever_happens(choice: DriverChoice) {
    for seed in 1..=SEEDS {
        Chaos::new(choice, seed).run();
    }
}

struct Chaos {
    host: Host,
    random: Random,
    connections: BTreeMap<RawFd, Connection>,
    /// Receives and sends of closed connections.
    orphans: Vec<u64>,
    closings: Vec<u64>,
}

impl Chaos {
    fn new(choice: DriverChoice, seed: u64) -> Self {
        Self {
            host: Host::new(choice),
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            connections: BTreeMap::new(),
            orphans: Vec::new(),
            closings: Vec::new(),
        }
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            self.step();
            if self.random.below(3) == 0 {
                let wait = Duration::from_micros(self.random.below(2) * 200);
                self.host.turn(Some(wait));
                self.settle();
            }
        }
        for socket in self.connections.keys().copied().collect::<Vec<_>>() {
            self.close(socket);
        }
        let deadline = Instant::now() + TIMEOUT;
        while !(self.orphans.is_empty() && self.closings.is_empty()) {
            assert!(Instant::now() < deadline, "{:?} never ended", self.orphans);
            self.host.turn(Some(Duration::from_millis(100)));
            self.settle();
        }
        let pool = self.host.pool.clone();
        assert_eq!(pool.statistics().in_use_bytes, 0, "all buffers came back");
        assert_eq!(
            self.host.turn(Some(Duration::ZERO)),
            0,
            "nothing ends twice"
        );
    }

    fn any(&mut self) -> Option<RawFd> {
        let count = self.connections.len() as u64;
        if count == 0 {
            return None;
        }
        let index = usize::try_from(self.random.below(count)).unwrap();
        self.connections.keys().nth(index).copied()
    }

    fn step(&mut self) {
        let action = self.random.below(20);
        if action == 0 && self.connections.len() < CONNECTIONS_MAX || self.connections.is_empty() {
            self.connect();
            return;
        }
        let Some(socket) = self.any() else { return };
        match action {
            1..=5 => self.client_writes(socket),
            6..=9 => self.client_reads(socket),
            10..=13 => self.host_receives(socket),
            14..=16 => self.host_sends(socket),
            17 => self.cancel(socket),
            18 if self.random.below(4) == 0 => self.close(socket),
            _ if self.random.below(8) == 0 => {
                let connection = self.connections.get_mut(&socket).unwrap();
                // From now on both ends only get errors.
                sockopt::set_socket_linger(&connection.client, Some(Duration::ZERO)).unwrap();
                connection.client =
                    TcpStream::connect(self.host.listener.local_addr().unwrap()).unwrap();
                connection.client.set_nonblocking(true).unwrap();
                connection.broken = true;
                // The client's connection is accepted and dropped.
                let accepted = self.host.accept();
                self.closings.push(
                    self.host
                        .submit(Operation::CloseSocket { socket: accepted }),
                );
            }
            _ => {}
        }
    }

    fn connect(&mut self) {
        let client = TcpStream::connect(self.host.listener.local_addr().unwrap()).unwrap();
        client.set_nonblocking(true).unwrap();
        let listener = self.host.listener.as_raw_fd();
        let socket = match self.host.execute(Operation::Accept { listener }) {
            Outcome::Accepted(Ok((socket, _))) => socket.into_raw_fd(),
            other => panic!("{other:?}"),
        };
        let connection = Connection {
            client,
            socket,
            receive: None,
            send: None,
            written: 0,
            received: 0,
            sent: 0,
            read: 0,
            broken: false,
        };
        assert!(self.connections.insert(socket, connection).is_none());
    }

    fn client_writes(&mut self, socket: RawFd) {
        let length = self.random.length();
        let connection = self.connections.get_mut(&socket).unwrap();
        let mut next = connection.written;
        let bytes = counting(&mut next, length);
        if let Ok(count) = connection.client.write(&bytes) {
            connection.written = connection.written.wrapping_add(count as u8);
        }
    }

    fn client_reads(&mut self, socket: RawFd) {
        let connection = self.connections.get_mut(&socket).unwrap();
        let mut bytes = vec![0; 1 << 17];
        match connection.client.read(&mut bytes) {
            Ok(count) if !connection.broken => check(&mut connection.read, &bytes[..count]),
            Ok(_) => {}
            Err(error) => assert!(error.kind() == ErrorKind::WouldBlock || connection.broken),
        }
    }

    fn host_receives(&mut self, socket: RawFd) {
        let room = self.random.length();
        let minimum = match self.random.below(3) {
            0 => 1,
            1 => room,
            _ => room.div_ceil(2),
        };
        let quickack = self.random.below(2) == 0;
        if self.connections[&socket].receive.is_none() {
            let buffer = self.host.pool.acquire(room).unwrap();
            let operation = Operation::Receive {
                socket,
                buffer,
                start: 0,
                minimum,
                quickack,
            };
            self.connections.get_mut(&socket).unwrap().receive = Some(self.host.submit(operation));
        }
    }

    fn host_sends(&mut self, socket: RawFd) {
        let length = self.random.length();
        let pieces = usize::try_from(1 + self.random.below(2_000)).unwrap();
        let connection = self.connections.get_mut(&socket).unwrap();
        if connection.send.is_none() {
            let bytes = counting(&mut connection.sent, length);
            let slices = bytes
                .chunks(pieces)
                .map(|piece| Slice::from_vec(piece.to_vec()))
                .collect();
            connection.send = Some(self.host.submit(Operation::Send { socket, slices }));
        }
    }

    fn cancel(&mut self, socket: RawFd) {
        let connection = self.connections.get_mut(&socket).unwrap();
        connection.broken = true;
        for token in [connection.receive, connection.send].into_iter().flatten() {
            self.host.driver.cancel(token);
        }
    }

    fn close(&mut self, socket: RawFd) {
        let connection = self.connections.remove(&socket).unwrap();
        self.orphans.extend(connection.receive);
        self.orphans.extend(connection.send);
        let socket = connection.socket;
        self.closings
            .push(self.host.submit(Operation::CloseSocket { socket }));
    }

    /// Process the completions.
    fn settle(&mut self) {
        let host = &mut self.host;
        for connection in self.connections.values_mut() {
            if connection
                .receive
                .is_some_and(|token| host.has_arrived(token))
            {
                let (buffer, result) = host.received(connection.receive.take().unwrap());
                match result {
                    Ok(count) if !connection.broken => {
                        check(&mut connection.received, &buffer[..count]);
                    }
                    Ok(_) => {}
                    Err(error) => assert!(connection.broken, "{error}"),
                }
            }
            if connection.send.is_some_and(|token| host.has_arrived(token)) {
                let result = host.sent(connection.send.take().unwrap());
                assert!(result.is_ok() || connection.broken, "{result:?}");
            }
        }
        self.orphans.retain(|token| {
            let ended = host.has_arrived(*token);
            if ended {
                drop(host.wait(*token));
            }
            !ended
        });
        self.closings.retain(|token| {
            let ended = host.has_arrived(*token);
            if ended {
                assert!(matches!(host.wait(*token), Outcome::Closed));
            }
            !ended
        });
    }
}
