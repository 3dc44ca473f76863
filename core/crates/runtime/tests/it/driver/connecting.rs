//! Connections to other processes, opened on threads that may block and then served by the driver.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

use headrace_runtime::{
    Connector, TcpConnector,
    driver::{DriverChoice, Operation, Outcome, TaskOutput},
};
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::driver::harness::{Host, TIMEOUT, pattern, slices};

fn connect(host: &mut Host, address: String, timeout: Duration) -> io::Result<RawFd> {
    let task = move || {
        TcpConnector
            .connect(&address, timeout)
            .map(TaskOutput::new::<OwnedFd>)
    };
    match host.execute(Operation::Task(Box::new(task))) {
        Outcome::Task(result) => {
            result.map(|output: TaskOutput| output.take::<OwnedFd>().into_raw_fd())
        }
        other => panic!("{other:?}"),
    }
}

pub fn connects_and_serves_the_connection(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let socket = connect(&mut host, address, TIMEOUT).unwrap();
    {
        // SAFETY: open until the end of the test.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        assert!(sockopt::tcp_nodelay(socket).unwrap());
        assert!(sockopt::socket_keepalive(socket).unwrap());
    }
    let (mut peer, _) = listener.accept().unwrap();
    let bytes = pattern(300_000);
    let token = host.submit(Operation::Send {
        socket,
        slices: slices(&bytes, 70_000),
    });
    let reader = std::thread::spawn(move || {
        let mut read = vec![0; bytes.len()];
        peer.read_exact(&mut read).unwrap();
        assert!(read == bytes);
        peer.write_all(b"answer").unwrap();
        peer
    });
    host.sent(token).unwrap();
    let receive = host.receive(socket, 64, 6);
    let token = host.submit(receive);
    let (buffer, result) = host.received(token);
    assert_eq!(&buffer[..result.unwrap()], b"answer");
    drop(reader.join().unwrap());
    host.close(socket);
}

pub fn resolves_a_name(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // The name may also resolve to the IPv6 address, which refuses connections.
    let socket = connect(&mut host, format!("localhost:{port}"), TIMEOUT).unwrap();
    listener.accept().unwrap();
    host.close(socket);
}

pub fn reports_why_there_is_no_connection(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let refused = connect(&mut host, address, TIMEOUT).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    for nonsense in ["", "127.0.0.1", "127.0.0.1:none", "name with spaces:80"] {
        assert!(connect(&mut host, nonsense.into(), TIMEOUT).is_err());
    }
}

pub fn waits_no_longer_for_a_silent_peer(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let (_listener, _waiting, address) = deaf();
    let clock = Instant::now();
    let refused = connect(&mut host, address.to_string(), Duration::from_millis(300)).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    assert!(clock.elapsed() < TIMEOUT);
}

/// A listener that never accepts and whose queue is full: the kernel ignores further connections.
fn deaf() -> (OwnedFd, Vec<TcpStream>, SocketAddr) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        waiting.push(stream);
        assert!(waiting.len() < 100, "the queue never fills");
    }
    (socket, waiting, address)
}
