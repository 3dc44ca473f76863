//! Socket that frames are written to and read from.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

use headrace_wire::frame::REQUEST_HEADER_BYTES;
use serde::{Deserialize, Serialize};

use crate::tls::{TlsStream, TlsTarget};
use crate::websocket::WebSocket;

/// Frame size from which the official client's buffer sends the header in a write of its own.
const OFFICIAL_CLIENT_BUFFER_BYTES: usize = 8 * 1024;

/// Transport of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Plain TCP. Either transport runs inside TLS if the address requests it.
    #[default]
    Tcp,
    /// WebSocket messages.
    WebSocket,
}

/// Number of writes for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteStyle {
    /// One vectored write for the whole frame.
    #[default]
    Vectored,
    /// A separate write for the header of a large frame, as the official client does. Together with Nagle's algorithm
    /// this shows whether the server acknowledges segments at once. Has no effect on a WebSocket, where the header is
    /// masked together with the rest.
    HeaderFirst,
}

/// A connection that carries bytes of the protocol in both directions.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(Stream),
    WebSocket(Box<WebSocket>),
}

/// Layer below the protocol: TCP, or TLS over TCP.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Underlying TCP connection.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Tcp(stream) => stream,
            Self::Tls(tls) => &tls.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(out),
            Self::Tls(tls) => tls.read(out),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write_vectored(slices),
            Self::Tls(tls) => tls.write_vectored(slices),
        }
    }

    /// TLS buffers bytes that the connection did not accept at once.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

impl Socket {
    /// Start TLS and WebSocket as `tls` and `transport` request; `host` is the host that the socket is connected to.
    pub(crate) fn open(
        stream: TcpStream,
        transport: Transport,
        host: &str,
        tls: Option<&TlsTarget>,
    ) -> io::Result<Self> {
        let stream = match tls {
            None => Stream::Tcp(stream),
            Some(tls) => Stream::Tls(Box::new(tls.open(stream)?)),
        };
        Ok(match transport {
            Transport::Tcp => Self::Plain(stream),
            Transport::WebSocket => Self::WebSocket(Box::new(WebSocket::open(stream, host)?)),
        })
    }

    /// Underlying TCP connection.
    pub(crate) fn stream(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream.tcp(),
            Self::WebSocket(websocket) => websocket.stream(),
        }
    }

    /// Read bytes of the protocol; 0: the server has closed.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(out),
            Self::WebSocket(websocket) => websocket.read(out),
        }
    }

    /// Write one request.
    pub(crate) fn write(&mut self, parts: [&[u8]; 3], style: WriteStyle) -> io::Result<()> {
        let stream = match self {
            Self::WebSocket(websocket) => return websocket.write(parts),
            Self::Plain(stream) => stream,
        };
        match style {
            WriteStyle::Vectored => write_parts(stream, parts)?,
            WriteStyle::HeaderFirst => write_header_first(stream, parts)?,
        }
        stream.flush()
    }
}

fn write_parts(stream: &mut impl Write, parts: [&[u8]; 3]) -> io::Result<()> {
    let mut slices = parts.map(IoSlice::new);
    let mut rest = &mut slices[..];
    // Drops the empty slices at the front, so that an empty list means that everything is written.
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

fn write_header_first(stream: &mut impl Write, parts: [&[u8]; 3]) -> io::Result<()> {
    let [first, second, third] = parts;
    let total: usize = parts.iter().map(|part| part.len()).sum();
    let (header, rest) = first.split_at(first.len().min(REQUEST_HEADER_BYTES));
    if total < OFFICIAL_CLIENT_BUFFER_BYTES {
        return write_parts(stream, parts);
    }
    stream.write_all(header)?;
    write_parts(stream, [rest, second, third])
}
