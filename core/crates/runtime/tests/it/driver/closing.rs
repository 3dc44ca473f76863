//! Cancelling, closing, dropping: every operation ends exactly once and no resource leaks.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::fd::AsRawFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use headrace_buffer::Slice;
use headrace_runtime::driver::{DriverChoice, Operation, Outcome, TaskOutput};

use crate::driver::harness::{Host, errno, pattern, slices};

pub fn cancels_what_waits(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let (_client, socket) = host.connect();
    let listener = host.listener.as_raw_fd();
    for turns_before in [0, 1] {
        let receive = host.submit(host.receive(socket, 100, 1));
        let accept = host.submit(Operation::Accept { listener });
        for _ in 0..turns_before {
            host.start_everything();
        }
        host.driver.cancel(receive);
        host.driver.cancel(accept);
        host.driver.cancel(receive);
        host.driver.cancel(u64::MAX);
        let (buffer, result) = host.received(receive);
        assert_eq!(errno(result), libc::ECANCELED);
        assert_eq!(buffer.len(), 100);
        match host.wait(accept) {
            Outcome::Accepted(result) => assert_eq!(errno(result), libc::ECANCELED),
            other => panic!("{other:?}"),
        }
    }
    // The token of a completed operation is ignored.
    host.driver.cancel(1);
    assert_eq!(host.turn(Some(Duration::from_millis(5))), 0);
    host.close(socket);
}

pub fn cancels_a_receive_in_the_middle(choice: DriverChoice) {
    let mut host = Host::new(choice);
    for room in [100, 1000] {
        let (mut client, socket) = host.connect();
        let receive = host.submit(host.receive(socket, room, 100));
        host.start_everything();
        client.write_all(&pattern(40)).unwrap();
        host.turn(Some(Duration::from_millis(50)));
        host.driver.cancel(receive);
        assert_eq!(errno(host.received(receive).1), libc::ECANCELED);
        host.close(socket);
    }
}

pub fn cancels_a_send_that_is_stuck(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let (_client, socket) = host.connect();
    let send = host.submit(Operation::Send {
        socket,
        slices: slices(&pattern(64 << 20), 1 << 20),
    });
    host.turn(Some(Duration::from_millis(20)));
    assert!(!host.has_arrived(send));
    host.driver.cancel(send);
    assert_eq!(errno(host.sent(send)), libc::ECANCELED);
    // A small send may have completed before the cancellation; it ends once all the same.
    let send = host.submit(Operation::Send {
        socket,
        slices: vec![Slice::from_static(b"late")],
    });
    host.driver.cancel(send);
    if let Err(error) = host.sent(send) {
        assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
    }
    host.close(socket);
}

pub fn closes_under_a_receive(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let (mut client, socket) = host.connect();
    let receive = host.submit(host.receive(socket, 100, 1));
    let send = host.submit(Operation::Send {
        socket,
        slices: slices(&pattern(64 << 20), 1 << 20),
    });
    host.turn(Some(Duration::from_millis(20)));
    host.close(socket);
    match host.received(receive).1 {
        Ok(count) => assert_eq!(count, 0),
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ECANCELED)),
    }
    assert!(matches!(
        errno(host.sent(send)),
        libc::EPIPE | libc::ECANCELED
    ));
    // The peer sees the end of the stream.
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
}

pub fn a_number_used_again_is_another_connection(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let mut numbers = Vec::new();
    for round in 0..20_u8 {
        let (mut client, socket) = host.connect();
        numbers.push(socket);
        let receive = host.submit(host.receive(socket, 16, 1));
        host.start_everything();
        client.write_all(&[round]).unwrap();
        let (buffer, result) = host.received(receive);
        assert_eq!((result.unwrap(), buffer[0]), (1, round));
        if round % 2 == 0 {
            // Unread data remains, of which the driver is notified after the end.
            client.write_all(b"unread").unwrap();
        }
        host.close(socket);
    }
    numbers.dedup();
    assert!(numbers.len() < 20, "numbers do come back: {numbers:?}");
}

/// Operations submitted before a close never reach the socket that gets its number next.
pub fn what_precedes_a_close_stays_with_its_socket(choice: DriverChoice) {
    let mut host = Host::new(choice);
    for _ in 0..20 {
        let (mut old_client, old) = host.connect();
        let receive = host.submit(host.receive(old, 100, 1));
        let send = host.submit(Operation::Send {
            socket: old,
            slices: vec![Slice::from_static(b"for the old one")],
        });
        let close = host.submit(Operation::CloseSocket { socket: old });
        // The next descriptor opened gets the lowest free number.
        let next = TcpStream::connect(host.listener.local_addr().unwrap()).unwrap();
        let mut new_client = TcpStream::connect(host.listener.local_addr().unwrap()).unwrap();
        new_client.write_all(b"for the new one").unwrap();
        let first = host.accept();
        let second = host.accept();
        assert!(matches!(host.wait(close), Outcome::Closed));
        if let Ok(count) = host.received(receive).1 {
            assert_eq!(count, 0, "another connection's bytes");
        }
        let _ = host.sent(send);
        let mut bytes = Vec::new();
        let _ = old_client.read_to_end(&mut bytes);
        assert!(bytes.is_empty() || bytes == b"for the old one");
        for socket in [first, second] {
            host.close(socket);
        }
        for mut client in [next, new_client] {
            let mut bytes = Vec::new();
            let _ = client.read_to_end(&mut bytes);
            assert!(bytes.is_empty(), "{bytes:?}");
        }
    }
}

/// A partial receive does not continue on the connection that got its socket's number.
pub fn half_a_frame_ends_with_its_socket(choice: DriverChoice) {
    let mut host = Host::new(choice);
    for _ in 0..20 {
        let (mut old_client, old) = host.connect();
        let receive = host.submit(host.receive(old, 1000, 100));
        host.start_everything();
        old_client.write_all(&[1; 40]).unwrap();
        host.close(old);
        let (mut new_client, new) = host.connect();
        new_client.write_all(&[2; 200]).unwrap();
        host.turn(Some(Duration::from_millis(2)));
        if let Ok(count) = host.received(receive).1 {
            assert!(count <= 40, "another connection's bytes");
        }
        let receive = host.submit(host.receive(new, 1000, 200));
        assert_eq!(host.received(receive).1.unwrap(), 200);
        host.close(new);
    }
}

pub fn gives_everything_back_when_dropped(choice: DriverChoice) {
    let bytes = pattern(8 << 20);
    let mut host = Host::new(choice);
    let clients: Vec<(TcpStream, i32)> = (0..50).map(|_| host.connect()).collect();
    let pool = host.pool.clone();
    for (index, (client, socket)) in clients.iter().enumerate() {
        let operation = host.receive(*socket, 4096, 100);
        host.submit(operation);
        let mut client = client;
        client.write_all(&pattern(index)).unwrap();
        host.submit(Operation::Send {
            socket: *socket,
            slices: slices(&bytes, 1 << 20),
        });
        if index == 25 {
            host.turn(Some(Duration::ZERO));
        }
    }
    let listener = host.listener.as_raw_fd();
    host.submit(Operation::Accept { listener });
    let file = Arc::new(tempfile::tempfile().unwrap().into());
    for position in 0..20 {
        let buffer = host.pool.acquire(100).unwrap();
        host.submit(Operation::ReadFile {
            file: Arc::clone(&file),
            position,
            buffer,
            start: 0,
            length: 100,
        });
        host.submit(Operation::SyncFile {
            file: Arc::clone(&file),
        });
    }
    assert!(pool.statistics().in_use_bytes > 0);
    let clock = Instant::now();
    drop(host);
    assert_eq!(pool.statistics().in_use_bytes, 0);
    assert_eq!(Arc::strong_count(&file), 1);
    assert!(
        clock.elapsed() < Duration::from_secs(4),
        "{:?}",
        clock.elapsed()
    );
}

pub fn finishes_work_begun_before_it_is_gone(choice: DriverChoice) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("late");
    let begun = Arc::new(AtomicBool::new(false));
    let mut host = Host::new(choice);
    host.submit(Operation::Task(Box::new({
        let (path, begun) = (path.clone(), Arc::clone(&begun));
        move || {
            begun.store(true, Ordering::Release);
            thread::sleep(Duration::from_millis(100));
            fs::write(path, b"done")?;
            Ok(TaskOutput::nothing())
        }
    })));
    while !begun.load(Ordering::Acquire) {
        thread::yield_now();
    }
    drop(host);
    assert_eq!(fs::read(path).unwrap(), b"done");
}
