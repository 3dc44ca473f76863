//! Requests and replies over loopback: both drivers and blocking threads, in the same run.
//!
//! ```text
//! cargo bench -p headrace-runtime --bench ping_pong [-- seconds [rounds [free|pin [server [load]]]]]
//! ```
//!
//! `server` is a part of a server's name, `load` the number of one of the loads, from 0; without them all run.
//!
//! `pin` keeps the server on processor 0 and the clients on processor 1 for comparable results. With `free`, the
//! scheduler decides each time anew whether the two sides share a cache, which changes results by half.
//!
//! One server thread (or one thread per connection for the baseline) answers clients that each have one request in
//! flight. The servers take turns within every round, and the medians over the rounds are printed; the first round only
//! warms up. The cost of a server is its threads' own time, so the clients' share of a busy machine does not affect it.
#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "prints a report for people"
)]
#![allow(clippy::disallowed_methods, reason = "measures time")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsRawFd, IntoRawFd, RawFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use headrace_buffer::{BufferPool, Slice};
use headrace_runtime::driver::{DriverChoice, Operation, Outcome, Selection, Waker, Workers};
use rustix::{
    thread::{CpuSet, sched_setaffinity},
    time::{ClockId, clock_gettime},
};

const MEBIBYTE: usize = 1 << 20;

#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    request_bytes: usize,
    reply_bytes: usize,
}

const LOADS: [Load; 9] = [
    load(1, 16, 16),
    load(4, 16, 16),
    load(64, 16, 16),
    load(1, 16, MEBIBYTE),
    load(4, 16, MEBIBYTE),
    load(64, 16, MEBIBYTE),
    load(1, MEBIBYTE, 16),
    load(4, MEBIBYTE, 16),
    load(64, MEBIBYTE, 16),
];

const fn load(connections: usize, request_bytes: usize, reply_bytes: usize) -> Load {
    Load {
        connections,
        request_bytes,
        reply_bytes,
    }
}

#[derive(Clone, Copy)]
enum Server {
    Driver(&'static str, DriverChoice, usize),
    Threads,
}

const SERVERS: [Server; 6] = [
    Server::Driver("uring, ring sends", DriverChoice::Uring, 0),
    Server::Driver("uring, 1 direct", DriverChoice::Uring, 1),
    Server::Driver("uring, <= 4 direct", DriverChoice::Uring, 4),
    Server::Driver("uring, all direct", DriverChoice::Uring, usize::MAX),
    Server::Driver("poll", DriverChoice::Poll, 0),
    Server::Threads,
];

impl Server {
    fn name(self) -> &'static str {
        match self {
            Self::Driver(name, ..) => name,
            Self::Threads => "threads",
        }
    }
}

/// Results of one server under one load.
#[derive(Clone, Copy)]
struct Statistics {
    requests_per_second: f64,
    p50: Duration,
    p99: Duration,
    cpu_per_request: Duration,
    enters_per_request: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let number = |index: usize| {
        arguments
            .get(index)
            .and_then(|text| text.parse::<f64>().ok())
    };
    let seconds = Duration::from_secs_f64(number(0).unwrap_or(1.0));
    let rounds = arguments
        .get(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(4);
    let pin = arguments.get(2).is_some_and(|text| text == "pin");
    let only = arguments.get(3).cloned().unwrap_or_default();
    let only_load = arguments.get(4).and_then(|text| text.parse::<usize>().ok());
    for (index, load) in LOADS.into_iter().enumerate() {
        if only_load.is_some_and(|only| only != index) {
            continue;
        }
        println!(
            "\n{} connections, {} B requests, {} B replies",
            load.connections, load.request_bytes, load.reply_bytes
        );
        println!(
            "{:>20} {:>10} {:>9} {:>9} {:>9} {:>8} {:>8}",
            "server", "req/s", "p50 us", "p99 us", "cpu us", "enters", "MB/s"
        );
        let servers: Vec<Server> = SERVERS
            .into_iter()
            .filter(|server| server.name().contains(only.as_str()))
            .collect();
        let mut statistics = vec![Vec::new(); servers.len()];
        for round in 0..rounds {
            for (server, statistics) in servers.iter().zip(&mut statistics) {
                let measured = measure(*server, load, seconds, pin);
                if round > 0 || rounds == 1 {
                    statistics.push(measured);
                }
            }
        }
        for (server, statistics) in servers.iter().zip(&statistics) {
            let median = |value: fn(&Statistics) -> f64| {
                let mut values: Vec<f64> = statistics.iter().map(value).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            let rate = median(|statistics| statistics.requests_per_second);
            println!(
                "{:>20} {:>10.0} {:>9.1} {:>9.1} {:>9.2} {:>8.2} {:>8.0}",
                server.name(),
                rate,
                median(|statistics| statistics.p50.as_secs_f64() * 1e6),
                median(|statistics| statistics.p99.as_secs_f64() * 1e6),
                median(|statistics| statistics.cpu_per_request.as_secs_f64() * 1e6),
                median(|statistics| statistics.enters_per_request),
                rate * (load.request_bytes + load.reply_bytes) as f64 / 1e6,
            );
        }
    }
}

fn measure(server: Server, load: Load, length: Duration, pin: bool) -> Statistics {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    let stop = Arc::new(AtomicBool::new(false));
    let waker = Waker::new().expect("descriptors are free");
    let serving = thread::spawn({
        let (stop, waker) = (Arc::clone(&stop), waker.clone());
        move || {
            stay_on(0, pin);
            match server {
                Server::Driver(_, choice, inline) => {
                    serve(&listener, choice, inline, load, waker, &stop)
                }
                Server::Threads => (serve_by_threads(&listener, load), 0),
            }
        }
    });
    let clients: Vec<_> = (0..load.connections)
        .map(|_| {
            thread::spawn(move || {
                stay_on(1, pin);
                request(address, load, length)
            })
        })
        .collect();
    let mut latencies: Vec<Duration> = clients
        .into_iter()
        .flat_map(|client| client.join().expect("no client fails"))
        .collect();
    stop.store(true, Ordering::Release);
    waker.wake();
    let (cpu, enters) = serving.join().expect("the server does not fail");
    latencies.sort_unstable();
    let count = latencies.len().max(1);
    Statistics {
        requests_per_second: count as f64 / length.as_secs_f64(),
        p50: latencies[count / 2],
        p99: latencies[count * 99 / 100],
        cpu_per_request: cpu.div_f64(count as f64),
        enters_per_request: enters as f64 / count as f64,
    }
}

fn request(address: SocketAddr, load: Load, length: Duration) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("it is a socket of TCP");
    let request = vec![1; load.request_bytes];
    let mut reply = vec![0; load.reply_bytes];
    let mut latencies = Vec::new();
    let end = Instant::now() + length;
    loop {
        let begin = Instant::now();
        if begin >= end {
            return latencies;
        }
        stream.write_all(&request).expect("the server receives");
        stream.read_exact(&mut reply).expect("the server replies");
        latencies.push(begin.elapsed());
    }
}

fn stay_on(processor: usize, pin: bool) {
    if pin {
        let mut set = CpuSet::new();
        set.set(processor);
        sched_setaffinity(None, &set).expect("there are two processors");
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).expect("below a second"),
    )
}

fn serve(
    listener: &TcpListener,
    choice: DriverChoice,
    inline: usize,
    load: Load,
    waker: Waker,
    stop: &AtomicBool,
) -> (Duration, u64) {
    const ACCEPT: u64 = u64::MAX;
    const SENT: u64 = 1 << 32;
    let selection = Selection::decide(choice)
        .expect("the driver is to be had")
        .with_inline_sends_max(inline);
    let workers = Workers::new(Workers::threads_by_default());
    let mut driver = selection.open(waker, workers).expect("a driver opens");
    let pool = BufferPool::new(1 << 30);
    let reply = Slice::from_vec(vec![2; load.reply_bytes]);
    let receive = |socket: RawFd| Operation::Receive {
        socket,
        buffer: pool.acquire(load.request_bytes).expect("the pool is large"),
        start: 0,
        minimum: load.request_bytes,
        quickack: false,
    };
    driver.submit(
        ACCEPT,
        Operation::Accept {
            listener: listener.as_raw_fd(),
        },
    );
    let mut completions = Vec::new();
    while !stop.load(Ordering::Acquire) {
        driver
            .poll(None, &mut completions)
            .expect("the driver works");
        for completion in completions.drain(..) {
            match completion.outcome {
                Outcome::Accepted(accepted) => {
                    let socket = accepted.expect("descriptors are free").0.into_raw_fd();
                    driver.submit(u64::from(socket.unsigned_abs()), receive(socket));
                    driver.submit(
                        ACCEPT,
                        Operation::Accept {
                            listener: listener.as_raw_fd(),
                        },
                    );
                }
                Outcome::Received {
                    result: Ok(count), ..
                } if count == load.request_bytes => {
                    let socket = RawFd::try_from(completion.token).expect("tokens are sockets");
                    let slices = vec![reply.clone()];
                    driver.submit(completion.token | SENT, Operation::Send { socket, slices });
                    driver.submit(completion.token, receive(socket));
                }
                _ => {}
            }
        }
    }
    (thread_time(), driver.counters().enters)
}

fn serve_by_threads(listener: &TcpListener, load: Load) -> Duration {
    let threads: Vec<_> = (0..load.connections)
        .map(|_| {
            let (mut stream, _) = listener.accept().expect("clients come");
            thread::spawn(move || {
                stream.set_nodelay(true).expect("it is a socket of TCP");
                let mut request = vec![0; load.request_bytes];
                let reply = vec![2; load.reply_bytes];
                while stream.read_exact(&mut request).is_ok() {
                    stream.write_all(&reply).expect("the client receives");
                }
                thread_time()
            })
        })
        .collect();
    threads
        .into_iter()
        .map(|thread| thread.join().expect("no thread fails"))
        .sum()
}
