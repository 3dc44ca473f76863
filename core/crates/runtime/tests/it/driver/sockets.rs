//! Accept, receive, send.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    thread,
    time::{Duration, Instant},
};

use headrace_buffer::Slice;
use headrace_runtime::driver::{DriverChoice, Operation, Outcome};
use rustix::{fs::OFlags, io::FdFlags, net::sockopt};

use crate::driver::harness::{Host, errno, pattern, slices};

fn linger_zero(stream: &TcpStream) {
    sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}

pub fn accepts_receives_and_sends(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let listener = host.listener.as_raw_fd();
    let accept = host.submit(Operation::Accept { listener });
    host.start_everything();
    let mut client = TcpStream::connect(host.listener.local_addr().unwrap()).unwrap();
    let Outcome::Accepted(Ok((socket, peer))) = host.wait(accept) else {
        panic!("not accepted")
    };
    assert_eq!(peer, client.local_addr().unwrap());
    assert!(sockopt::tcp_nodelay(socket.as_fd()).unwrap());
    assert!(
        rustix::io::fcntl_getfd(&socket)
            .unwrap()
            .contains(FdFlags::CLOEXEC)
    );
    assert!(
        !rustix::fs::fcntl_getfl(&socket)
            .unwrap()
            .contains(OFlags::NONBLOCK)
    );

    let socket = std::os::fd::IntoRawFd::into_raw_fd(socket);
    let receive = host.submit(Operation::Receive {
        socket,
        buffer: host.pool.acquire(64).unwrap(),
        start: 3,
        minimum: 1,
        quickack: true,
    });
    host.start_everything();
    client.write_all(b"ping").unwrap();
    let (buffer, result) = host.received(receive);
    assert_eq!(result.unwrap(), 4);
    assert_eq!(&buffer[3..7], b"ping");
    assert_eq!(buffer.len(), 64, "the length is the caller's");

    let reply = vec![
        Slice::from_static(b"po"),
        Slice::from_static(b""),
        Slice::from_static(b"ng"),
    ];
    let send = host.submit(Operation::Send {
        socket,
        slices: reply,
    });
    host.sent(send).unwrap();
    let nothing = host.submit(Operation::Send {
        socket,
        slices: Vec::new(),
    });
    host.sent(nothing).unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"pong");

    host.close(socket);
    assert_eq!(client.read(&mut answer).unwrap(), 0);
}

pub fn receives_exactly_what_a_large_frame_needs(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let (client, socket) = host.connect();
    let frame = pattern(8 << 20);
    let writer = thread::spawn({
        let (mut client, frame) = (client.try_clone().unwrap(), frame.clone());
        move || {
            for (index, piece) in frame.chunks(777_777).enumerate() {
                client.write_all(piece).unwrap();
                if index % 3 == 0 {
                    thread::sleep(Duration::from_millis(2));
                }
            }
            client.write_all(b"next").unwrap();
        }
    });
    let head = 100;
    let mut buffer = host.pool.acquire(frame.len()).unwrap();
    buffer[..head].copy_from_slice(&frame[..head]);
    let first = host.submit(host.receive(socket, head, head));
    let (received, result) = host.received(first);
    assert_eq!(result.unwrap(), head);
    assert_eq!(&received[..], &frame[..head]);
    let rest = host.submit(Operation::Receive {
        socket,
        buffer,
        start: head,
        minimum: frame.len() - head,
        quickack: true,
    });
    let (buffer, result) = host.received(rest);
    assert_eq!(result.unwrap(), frame.len() - head);
    assert_eq!(&buffer[..], &frame[..]);
    // The following bytes remain for the next receive.
    let next = host.submit(host.receive(socket, 100, 4));
    let (buffer, result) = host.received(next);
    assert_eq!(result.unwrap(), 4);
    assert_eq!(&buffer[..4], b"next");
    writer.join().unwrap();
    host.close(socket);
}

pub fn receives_at_least_the_minimum(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let (mut client, socket) = host.connect();
    let sent = pattern(300);
    let receive = host.submit(host.receive(socket, 4096, 250));
    for piece in sent.chunks(100) {
        assert!(!host.has_arrived(receive));
        client.write_all(piece).unwrap();
        thread::sleep(Duration::from_millis(5));
        host.turn(Some(Duration::from_millis(20)));
    }
    let (buffer, result) = host.received(receive);
    assert_eq!(result.unwrap(), 300);
    assert_eq!(&buffer[..300], &sent[..]);
    host.close(socket);
}

pub fn reports_the_end_of_the_stream(choice: DriverChoice) {
    let mut host = Host::new(choice);
    for room in [50, 4096] {
        let (mut client, socket) = host.connect();
        let receive = host.submit(host.receive(socket, room, 50));
        host.start_everything();
        client.write_all(&pattern(20)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let (buffer, result) = host.received(receive);
        assert_eq!(result.unwrap(), 20, "what came before the end is kept");
        assert_eq!(&buffer[..20], &pattern(20)[..]);
        let after = host.submit(host.receive(socket, 10, 1));
        assert_eq!(host.received(after).1.unwrap(), 0);
        // The other direction is still open.
        let send = host.submit(Operation::Send {
            socket,
            slices: vec![Slice::from_static(b"bye")],
        });
        host.sent(send).unwrap();
        let mut answer = Vec::new();
        host.close(socket);
        client.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"bye");
    }
}

pub fn sends_many_slices_to_a_slow_reader(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let (mut client, socket) = host.connect();
    // Far more than socket buffers hold, and more slices than one system call takes.
    let bytes = pattern(24 << 20);
    let reader = thread::spawn(move || {
        let mut received = Vec::new();
        let mut piece = vec![0; 1 << 20];
        thread::sleep(Duration::from_millis(50));
        while received.len() < 24 << 20 {
            let count = client.read(&mut piece).unwrap();
            assert!(count > 0);
            received.extend_from_slice(&piece[..count]);
            if received.len() % 5 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        received
    });
    let send = host.submit(Operation::Send {
        socket,
        slices: slices(&bytes, 7001),
    });
    host.turn(Some(Duration::ZERO));
    assert!(
        !host.has_arrived(send),
        "it does not fit the socket's buffer"
    );
    host.sent(send).unwrap();
    assert!(reader.join().unwrap() == bytes);
    host.close(socket);
}

pub fn survives_a_peer_that_resets(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let (client, socket) = host.connect();
    let receive = host.submit(host.receive(socket, 100, 10));
    host.start_everything();
    linger_zero(&client);
    drop(client);
    assert_eq!(errno(host.received(receive).1), libc::ECONNRESET);
    // No SIGPIPE ends the process.
    let send = host.submit(Operation::Send {
        socket,
        slices: slices(&pattern(1000), 100),
    });
    assert_eq!(errno(host.sent(send)), libc::EPIPE);
    host.close(socket);

    // A waiting send fails, too.
    let (client, socket) = host.connect();
    let send = host.submit(Operation::Send {
        socket,
        slices: slices(&pattern(32 << 20), 1 << 20),
    });
    host.turn(Some(Duration::from_millis(5)));
    linger_zero(&client);
    drop(client);
    assert!(matches!(
        errno(host.sent(send)),
        libc::ECONNRESET | libc::EPIPE
    ));
    host.close(socket);
}

pub fn a_thousand_connections_at_once(choice: DriverChoice) {
    const CONNECTIONS: usize = 1000;
    headrace_runtime::raise_open_files_limit().unwrap();
    let mut host = Host::new(choice);
    let address = host.listener.local_addr().unwrap();
    let clients = thread::spawn(move || {
        let mut clients: Vec<TcpStream> = (0..CONNECTIONS)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        for round in 0..3_u8 {
            for (index, client) in clients.iter_mut().enumerate() {
                client
                    .write_all(&[round, index as u8, (index >> 8) as u8])
                    .unwrap();
            }
            for (index, client) in clients.iter_mut().enumerate() {
                let mut echo = [0; 3];
                client.read_exact(&mut echo).unwrap();
                assert_eq!(echo, [round, index as u8, (index >> 8) as u8]);
            }
        }
    });
    let sockets: Vec<RawFd> = (0..CONNECTIONS).map(|_| host.accept()).collect();
    let mut receives: Vec<u64> = sockets
        .iter()
        .map(|socket| {
            let receive = host.receive(*socket, 16, 3);
            host.submit(receive)
        })
        .collect();
    for _ in 0..3 {
        let mut sends = Vec::new();
        for (receive, socket) in receives.iter_mut().zip(&sockets) {
            let (mut buffer, result) = host.received(*receive);
            assert_eq!(result.unwrap(), 3);
            buffer.set_len(3);
            sends.push(host.submit(Operation::Send {
                socket: *socket,
                slices: vec![buffer.freeze()],
            }));
            let again = host.receive(*socket, 16, 3);
            *receive = host.submit(again);
        }
        for send in sends {
            host.sent(send).unwrap();
        }
    }
    clients.join().unwrap();
    for receive in receives {
        assert_eq!(host.received(receive).1.unwrap(), 0);
    }
    for socket in sockets {
        host.close(socket);
    }
}

/// SHARD-6: no data that arrives while a socket moves is lost.
pub fn moves_a_socket_to_another_driver(choice: DriverChoice) {
    let mut old = Host::new(choice);
    let mut new = Host::new(choice);
    let (mut client, socket) = old.connect();
    for round in 0..3 {
        let receive = old.submit(old.receive(socket, 16, 1));
        old.start_everything();
        client.write_all(b"a").unwrap();
        assert_eq!(old.received(receive).1.unwrap(), 1);
        if round > 0 {
            // The same with a receive that has to be cancelled first.
            let receive = old.submit(old.receive(socket, 16, 1));
            old.start_everything();
            old.driver.cancel(receive);
            assert_eq!(errno(old.received(receive).1), libc::ECANCELED);
        }
        old.driver.release(socket);
        client.write_all(b"b").unwrap();
        let receive = new.submit(new.receive(socket, 16, 1));
        let (buffer, result) = new.received(receive);
        assert_eq!((result.unwrap(), buffer[0]), (1, b'b'));
        old.turn(Some(Duration::ZERO));
        std::mem::swap(&mut old, &mut new);
    }
    old.close(socket);
}

pub fn takes_sockets_that_do_not_block(choice: DriverChoice) {
    let mut host = Host::new(choice);
    host.listener.set_nonblocking(true).unwrap();
    let listener = host.listener.as_raw_fd();
    let accept = host.submit(Operation::Accept { listener });
    host.start_everything();
    let mut client = TcpStream::connect(host.listener.local_addr().unwrap()).unwrap();
    let Outcome::Accepted(Ok((socket, _))) = host.wait(accept) else {
        panic!("not accepted")
    };
    rustix::io::ioctl_fionbio(&socket, true).unwrap();
    let socket = std::os::fd::IntoRawFd::into_raw_fd(socket);
    let receive = host.submit(host.receive(socket, 16, 4));
    host.start_everything();
    client.write_all(b"abcd").unwrap();
    assert_eq!(host.received(receive).1.unwrap(), 4);
    host.close(socket);
}

/// A client that sends its header separately and waits for the acknowledgement before it sends the rest: 20 such frames
/// take 20 times 40 ms if acknowledgements are delayed.
pub fn acknowledges_a_lone_header_at_once(choice: DriverChoice) {
    const ROUNDS: usize = 20;
    let mut host = Host::new(choice);
    let (mut client, socket) = host.connect();
    let mut taken = Vec::new();
    let peer = thread::spawn(move || {
        let payload = pattern(20_000);
        for _ in 0..ROUNDS {
            client.write_all(&[1; 8]).unwrap();
            client.write_all(&payload).unwrap();
            client.read_exact(&mut [0; 1]).unwrap();
        }
    });
    for _ in 0..ROUNDS {
        let clock = Instant::now();
        let mut have = 0;
        let mut buffer = host.pool.acquire(20_008).unwrap();
        while have < 20_008 {
            let receive = host.submit(Operation::Receive {
                socket,
                buffer,
                start: have,
                minimum: 1,
                quickack: have > 0,
            });
            let (back, result) = host.received(receive);
            buffer = back;
            have += result.unwrap();
        }
        let send = host.submit(Operation::Send {
            socket,
            slices: vec![Slice::from_static(b"k")],
        });
        host.sent(send).unwrap();
        taken.push(clock.elapsed());
    }
    peer.join().unwrap();
    // With delayed acknowledgements every round would take that long; the median ignores slow rounds of a busy machine.
    taken.sort_unstable();
    assert!(taken[ROUNDS / 2] < Duration::from_millis(35), "{taken:?}");
    host.close(socket);
}

pub fn refuses_a_receive_without_room(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let (_client, socket) = host.connect();
    for (start, minimum) in [(16, 1), (0, 17), (10, 7), (0, 0), (99, 1)] {
        let receive = host.submit(Operation::Receive {
            socket,
            buffer: host.pool.acquire(16).unwrap(),
            start,
            minimum,
            quickack: false,
        });
        let (buffer, result) = host.received(receive);
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
        assert_eq!(buffer.len(), 16);
    }
    host.close(socket);
}

pub fn skips_connections_that_died_while_waiting(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let address = host.listener.local_addr().unwrap();
    for _ in 0..5 {
        let dead = TcpStream::connect(address).unwrap();
        linger_zero(&dead);
    }
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"x").unwrap();
    let socket = host.accept();
    let peer = rustix::net::getpeername(
        // SAFETY: open until it is closed below.
        unsafe { BorrowedFd::borrow_raw(socket) },
    );
    assert_eq!(
        std::net::SocketAddr::try_from(peer.unwrap().unwrap()).unwrap(),
        client.local_addr().unwrap()
    );
    host.close(socket);
}

/// Replies of a connection leave in order, however the driver sends them.
pub fn sends_in_the_order_of_submission(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let (mut client, socket) = host.connect();
    for round in 0..50_u8 {
        let send = host.submit(Operation::Send {
            socket,
            slices: slices(&[round; 600], 100),
        });
        host.sent(send).unwrap();
    }
    let mut received = vec![0; 50 * 600];
    client.read_exact(&mut received).unwrap();
    for (round, piece) in (0..50_u8).zip(received.chunks(600)) {
        assert_eq!(piece, [round; 600]);
    }
    host.close(socket);
}
