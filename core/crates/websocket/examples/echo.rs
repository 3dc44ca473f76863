//! Echo server for conformance suites, with the framing of the server's binary endpoint.
//!
//! `echo 127.0.0.1:9001` listens there until it is killed.
#![allow(clippy::print_stdout, reason = "a program for people")]

use std::{
    env, io,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use headrace_websocket::{
    Decoder, Item, Limits, Opcode, Origins, ProtocolError, Role, Step, close_payload,
    encode_control, encode_header, read_request, refusal, response,
};

const LIMITS: Limits = Limits {
    frame_bytes_max: 16 << 20,
    message_bytes_max: 64 << 20,
};

fn main() -> io::Result<()> {
    let address = env::args().nth(1).unwrap_or("127.0.0.1:9001".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        // Errors of a peer that disconnects are ignored.
        thread::spawn(move || serve(stream));
    }
    Ok(())
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut peer = Peer {
        received: Vec::new(),
        message: Vec::new(),
        decoder: Decoder::new(Role::Server, LIMITS),
    };
    if !peer.upgrade(&mut stream)? {
        return Ok(());
    }
    loop {
        let mut out = Vec::new();
        let goes_on = match peer.answer(&mut out) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                let payload = close_payload(error.close_code(), &error.to_string());
                encode_control(&mut out, Opcode::Close, &payload, None);
                false
            }
        };
        stream.write_all(&out)?;
        if !goes_on {
            stream.shutdown(std::net::Shutdown::Write)?;
            io::copy(&mut stream, &mut io::sink())?;
            return Ok(());
        }
        if !peer.receive(&mut stream)? {
            return Ok(());
        }
    }
}

struct Peer {
    received: Vec<u8>,
    message: Vec<u8>,
    decoder: Decoder,
}

impl Peer {
    fn receive(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece)?;
        self.received.extend_from_slice(&piece[..count]);
        Ok(count > 0)
    }

    fn upgrade(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        loop {
            match read_request(&self.received, &Origins::default()) {
                Ok(Some(upgrade)) => {
                    self.received.drain(..upgrade.consumed);
                    stream.write_all(&response(&upgrade))?;
                    return Ok(true);
                }
                Ok(None) => {}
                Err(refused) => {
                    stream.write_all(&refusal(refused))?;
                    return Ok(false);
                }
            }
            if !self.receive(stream)? {
                return Ok(false);
            }
        }
    }

    /// Process all received bytes. Returns false if the connection ends.
    fn answer(&mut self, out: &mut Vec<u8>) -> Result<bool, ProtocolError> {
        let mut start = 0;
        let goes_on = loop {
            let bytes = &mut self.received[start..];
            let Step::Item { item, consumed } = self.decoder.next(bytes)? else {
                break true;
            };
            match item {
                Item::Data {
                    kind,
                    payload,
                    ends_message,
                    ..
                } => {
                    self.message.extend_from_slice(&bytes[payload]);
                    if ends_message {
                        let header = encode_header(kind.into(), self.message.len(), None);
                        out.extend_from_slice(header.as_slice());
                        out.append(&mut self.message);
                    }
                }
                Item::Ping { payload } => {
                    encode_control(out, Opcode::Pong, &bytes[payload], None);
                }
                Item::Pong => {}
                Item::Close { code } => {
                    let payload = code.map_or_else(Vec::new, |code| close_payload(code, ""));
                    encode_control(out, Opcode::Close, &payload, None);
                    break false;
                }
            }
            start += consumed;
        };
        self.received.drain(..start);
        Ok(goes_on)
    }
}
