//! What frames are written to and read from.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

use headrace_wire::frame::REQUEST_HEADER_BYTES;
use serde::{Deserialize, Serialize};

use crate::websocket::WebSocket;

/// From this size on the official client's buffer lets the header travel in a write of its own.
const OFFICIAL_CLIENT_BUFFER_BYTES: usize = 8 * 1024;

/// What carries the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP, and nothing else.
    #[default]
    Tcp,
    /// The messages of a WebSocket.
    WebSocket,
}

/// How a frame is handed to the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteStyle {
    /// As a whole, in one vectored write.
    #[default]
    Vectored,
    /// As the official client does: the header of a large frame in a write of its own. Together with Nagle's
    /// algorithm this shows whether the server acknowledges segments at once. The same as the other on a WebSocket,
    /// where the header is masked together with what follows.
    HeaderFirst,
}

/// Bytes of the protocol, in both directions.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    WebSocket(Box<WebSocket>),
}

impl Socket {
    /// Begin as `transport` does; `host` is whom the socket is connected to.
    pub(crate) fn open(stream: TcpStream, transport: Transport, host: &str) -> io::Result<Self> {
        Ok(match transport {
            Transport::Tcp => Self::Plain(stream),
            Transport::WebSocket => Self::WebSocket(Box::new(WebSocket::open(stream, host)?)),
        })
    }

    /// The socket itself.
    pub(crate) fn stream(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::WebSocket(websocket) => websocket.stream(),
        }
    }

    /// Read what is there, at least one byte; 0: the server has closed.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(out),
            Self::WebSocket(websocket) => websocket.read(out),
        }
    }

    /// Write a frame; the first part holds at least its header.
    pub(crate) fn write(&mut self, parts: [&[u8]; 3], style: WriteStyle) -> io::Result<()> {
        match (self, style) {
            (Self::WebSocket(websocket), _) => websocket.write(parts),
            (Self::Plain(stream), WriteStyle::Vectored) => write_parts(stream, parts),
            (Self::Plain(stream), WriteStyle::HeaderFirst) => write_header_first(stream, parts),
        }
    }
}

fn write_parts(stream: &mut TcpStream, parts: [&[u8]; 3]) -> io::Result<()> {
    let mut slices = parts.map(IoSlice::new);
    let mut rest = &mut slices[..];
    // Drops the empty slices at the front, so that an empty rest means that everything is written.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match stream.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut rest, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn write_header_first(stream: &mut TcpStream, parts: [&[u8]; 3]) -> io::Result<()> {
    let [first, second, third] = parts;
    let total: usize = parts.iter().map(|part| part.len()).sum();
    let (header, rest) = first.split_at(first.len().min(REQUEST_HEADER_BYTES));
    if total < OFFICIAL_CLIENT_BUFFER_BYTES {
        return write_parts(stream, parts);
    }
    stream.write_all(header)?;
    write_parts(stream, [rest, second, third])
}
