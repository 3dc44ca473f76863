//! A WebSocket proxy in front of a plain server that splits frames as adversely as the standard permits.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use headrace_websocket::{
    Decoder, Item, Limits, Opcode, Origins, Role, Step, encode_control, encode_header,
    read_request, response,
};

use crate::support::listen;

const LIMITS: Limits = Limits {
    frame_bytes_max: 16 << 20,
    message_bytes_max: 64 << 20,
};

/// Splitting of the server's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// No splitting.
    Not,
    /// Fragments of this size, with pings between them.
    Every(usize),
    /// A close frame in place of the first answer.
    Closed,
}

/// Serve WebSocket in front of `server`.
pub fn listener(server: SocketAddr, cut: Cut) -> SocketAddr {
    listen(move |stream| {
        let inside = TcpStream::connect(server).expect("the server listens");
        serve(stream, inside, cut);
    })
}

fn serve(mut outside: TcpStream, mut inside: TcpStream, cut: Cut) {
    let mut received = Vec::new();
    let upgrade = loop {
        match read_request(&received, &Origins::default()).expect("an upgrade") {
            Some(upgrade) => break upgrade,
            None => receive(&mut outside, &mut received),
        }
    };
    received.drain(..upgrade.consumed);
    let mut answer = outside.try_clone().expect("a descriptor");
    let mut answers = inside.try_clone().expect("a descriptor");
    answer.write_all(&response(&upgrade)).expect("connected");
    thread::spawn(move || {
        let mut bytes = vec![0; 100_000];
        while let Ok(count @ 1..) = answers.read(&mut bytes) {
            if answer.write_all(&wrapped(&bytes[..count], cut)).is_err() {
                break;
            }
        }
        let _ = answer.shutdown(Shutdown::Both);
    });
    let mut decoder = Decoder::new(Role::Server, LIMITS);
    loop {
        while let Step::Item { item, consumed } =
            decoder.next(&mut received).expect("what a client may send")
        {
            match item {
                Item::Data { payload, .. } => {
                    inside.write_all(&received[payload]).expect("connected");
                }
                Item::Close { .. } => return,
                Item::Ping { .. } | Item::Pong => {}
            }
            received.drain(..consumed);
        }
        let before = received.len();
        receive(&mut outside, &mut received);
        if received.len() == before {
            let _ = inside.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn receive(stream: &mut TcpStream, received: &mut Vec<u8>) {
    let mut bytes = [0; 4096];
    let count = stream.read(&mut bytes).unwrap_or(0);
    received.extend_from_slice(&bytes[..count]);
}

fn wrapped(bytes: &[u8], cut: Cut) -> Vec<u8> {
    let mut out = Vec::new();
    match cut {
        Cut::Not => message(&mut out, 0x82, bytes),
        Cut::Closed => encode_control(&mut out, Opcode::Close, &[0x03, 0xe9], None),
        Cut::Every(size) => {
            let mut first = 0x02;
            for part in bytes.chunks(size) {
                message(&mut out, first, part);
                encode_control(&mut out, Opcode::Ping, b"are you there?", None);
                first = 0x00;
            }
            message(&mut out, 0x80, b"");
            message(&mut out, 0x81, b"nothing of importance");
        }
    }
    out
}

fn message(out: &mut Vec<u8>, first: u8, payload: &[u8]) {
    let start = out.len();
    out.extend_from_slice(encode_header(Opcode::Binary, payload.len(), None).as_slice());
    out[start] = first;
    out.extend_from_slice(payload);
}
