//! A minimal shard thread: one driver, its completions by token.

use std::{
    collections::BTreeMap,
    net::{TcpListener, TcpStream},
    os::fd::{AsRawFd, IntoRawFd, RawFd},
    time::{Duration, Instant},
};

use headrace_buffer::{Buffer, BufferPool, Slice};
use headrace_runtime::driver::{
    Completion, Driver, DriverChoice, Operation, Outcome, Selection, Waker, Workers,
};

/// Timeout of the tests, longer than any step takes even on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(20);

pub struct Host {
    pub driver: Box<dyn Driver>,
    pub pool: BufferPool,
    pub listener: TcpListener,
    arrived: BTreeMap<u64, Outcome>,
    next_token: u64,
}

impl Host {
    pub fn new(choice: DriverChoice) -> Self {
        let selection = Selection::decide(choice).expect("this machine offers both drivers");
        let workers = Workers::new(Workers::threads_by_default());
        let driver = selection
            .open(Waker::new().unwrap(), workers)
            .expect("a driver opens");
        assert_eq!(driver.name(), choice.name());
        Self {
            driver,
            pool: BufferPool::new(1 << 30),
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            arrived: BTreeMap::new(),
            next_token: 1000,
        }
    }

    pub fn submit(&mut self, operation: Operation) -> u64 {
        self.next_token += 1;
        self.driver.submit(self.next_token, operation);
        self.next_token
    }

    /// Run one turn; returns the number of completions.
    pub fn turn(&mut self, timeout: Option<Duration>) -> usize {
        let mut out = Vec::new();
        self.driver.poll(timeout, &mut out).unwrap();
        let count = out.len();
        for Completion { token, outcome } in out {
            let earlier = self.arrived.insert(token, outcome);
            assert!(earlier.is_none(), "{token} completed twice");
        }
        count
    }

    pub fn wait(&mut self, token: u64) -> Outcome {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(outcome) = self.arrived.remove(&token) {
                return outcome;
            }
            assert!(
                Instant::now() < deadline,
                "operation {token} never completed"
            );
            self.turn(Some(Duration::from_secs(1)));
        }
    }

    /// Pass all submitted operations to the kernel; none of them may complete yet.
    pub fn start_everything(&mut self) {
        assert_eq!(self.turn(Some(Duration::from_millis(5))), 0);
    }

    pub fn has_arrived(&self, token: u64) -> bool {
        self.arrived.contains_key(&token)
    }

    pub fn execute(&mut self, operation: Operation) -> Outcome {
        let token = self.submit(operation);
        self.wait(token)
    }

    pub fn accept(&mut self) -> RawFd {
        let listener = self.listener.as_raw_fd();
        match self.execute(Operation::Accept { listener }) {
            Outcome::Accepted(Ok((socket, _))) => socket.into_raw_fd(),
            other => panic!("{other:?}"),
        }
    }

    /// Connect a client; returns it and the driver's end.
    pub fn connect(&mut self) -> (TcpStream, RawFd) {
        let client = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        client.set_write_timeout(Some(TIMEOUT)).unwrap();
        (client, self.accept())
    }

    pub fn receive(&self, socket: RawFd, room: usize, minimum: usize) -> Operation {
        Operation::Receive {
            socket,
            buffer: self.pool.acquire(room).unwrap(),
            start: 0,
            minimum,
            quickack: false,
        }
    }

    pub fn received(&mut self, token: u64) -> (Buffer, std::io::Result<usize>) {
        match self.wait(token) {
            Outcome::Received { buffer, result } => (buffer, result),
            other => panic!("{other:?}"),
        }
    }

    pub fn sent(&mut self, token: u64) -> std::io::Result<()> {
        match self.wait(token) {
            Outcome::Sent(result) => result,
            other => panic!("{other:?}"),
        }
    }

    pub fn close(&mut self, socket: RawFd) {
        assert!(matches!(
            self.execute(Operation::CloseSocket { socket }),
            Outcome::Closed
        ));
    }
}

/// Bytes that depend on their position.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index * 31 + index / 251) as u8)
        .collect()
}

pub fn slices(bytes: &[u8], piece: usize) -> Vec<Slice> {
    bytes
        .chunks(piece)
        .map(|piece| Slice::from_vec(piece.to_vec()))
        .collect()
}

pub fn errno(result: std::io::Result<impl std::fmt::Debug>) -> i32 {
    result
        .unwrap_err()
        .raw_os_error()
        .expect("the system's error")
}
