//! Non-blocking socket, with or without TLS.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    os::fd::{AsFd, BorrowedFd},
};

use rustls::{ClientConnection, Connection, ServerConnection};

use super::tls::{Tls, server_name};
use crate::surroundings::Connection as Given;

/// Maximum number of bytes read before other connections get their turn.
const READ_BYTES_MAX: usize = 1024 * 1024;
const READ_STEP_BYTES: usize = 64 * 1024;
/// Maximum number of plain bytes that TLS buffers before their encrypted form is sent.
const TLS_BUFFER_BYTES: usize = 256 * 1024;

/// Result of a read or a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IoProgress {
    /// The socket accepts no more bytes, or has none, for now.
    Paused,
    /// The limit was reached; more bytes may be available immediately.
    More,
}

/// Underlying byte stream of a connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Network(Box<dyn Given>),
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(into),
            Self::Network(given) => given.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Network(given) => given.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.flush(),
            Self::Network(given) => given.flush(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    tls: Option<Box<Connection>>,
}

impl Stream {
    /// Wrap a connection dialled to `address`.
    pub(crate) fn dialled(socket: Socket, tls: Option<&Tls>, address: &str) -> io::Result<Self> {
        let tls = tls
            .map(|tls| {
                let name = server_name(address)
                    .ok_or_else(|| io::Error::other(format!("{address} has no host name")))?;
                let mut connection =
                    ClientConnection::new(tls.client.clone(), name).map_err(io::Error::other)?;
                connection.set_buffer_limit(Some(TLS_BUFFER_BYTES));
                Ok::<_, io::Error>(Box::new(Connection::Client(connection)))
            })
            .transpose()?;
        Self::new(socket, tls)
    }

    /// Wrap an accepted connection.
    pub(crate) fn accepted(socket: Socket, tls: Option<&Tls>) -> io::Result<Self> {
        let tls = tls
            .map(|tls| {
                let mut connection =
                    ServerConnection::new(tls.server.clone()).map_err(io::Error::other)?;
                connection.set_buffer_limit(Some(TLS_BUFFER_BYTES));
                Ok::<_, io::Error>(Box::new(Connection::Server(connection)))
            })
            .transpose()?;
        Self::new(socket, tls)
    }

    fn new(socket: Socket, tls: Option<Box<Connection>>) -> io::Result<Self> {
        if let Socket::Tcp(socket) = &socket {
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
        }
        Ok(Self { socket, tls })
    }

    /// Descriptor to wait for; `None` if the connection is not a socket.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.socket {
            Socket::Tcp(socket) => Some(socket.as_fd()),
            Socket::Network(_) => None,
        }
    }

    /// Return whether TLS has bytes of its own to send.
    pub(crate) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Append received bytes to `into`.
    ///
    /// # Errors
    /// The connection has ended: `UnexpectedEof` if the other side closed it.
    pub(crate) fn read(&mut self, into: &mut Vec<u8>) -> io::Result<IoProgress> {
        let mut taken = 0;
        while taken < READ_BYTES_MAX {
            let step = match &mut self.tls {
                None => read_some(&mut self.socket, into),
                Some(tls) => read_tls(tls, &mut self.socket, into),
            };
            match step {
                Ok(bytes) => taken += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(IoProgress::Paused);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(IoProgress::More)
    }

    /// Send from the front of `bytes`; returns the number of bytes accepted.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return match self.socket.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                result => result,
            };
        };
        let taken = tls.writer().write(bytes)?;
        push_tls(tls, &mut self.socket)?;
        Ok(taken)
    }

    /// Send the pending TLS records.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => push_tls(tls, &mut self.socket),
        }
    }
}

fn read_some(from: &mut impl Read, into: &mut Vec<u8>) -> io::Result<usize> {
    let length = into.len();
    into.resize(length + READ_STEP_BYTES, 0);
    let result = from.read(&mut into[length..]);
    into.truncate(length + result.as_ref().copied().unwrap_or(0));
    match result {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        result => result,
    }
}

/// Read from the socket once and append the decrypted bytes, which may be none yet. Returns the number of bytes
/// received from the network, so that progress without plain bytes counts as well.
fn read_tls(tls: &mut Connection, socket: &mut Socket, into: &mut Vec<u8>) -> io::Result<usize> {
    let received = tls.read_tls(socket)?;
    if received == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let state = match tls.process_new_packets() {
        Ok(state) => state,
        Err(error) => {
            // The alert reports the error to the other side.
            let _ = push_tls(tls, socket);
            return Err(io::Error::other(error));
        }
    };
    let (start, mut plain) = (into.len(), state.plaintext_bytes_to_read());
    into.resize(start + plain, 0);
    while plain > 0 {
        let end = into.len();
        let read = tls.reader().read(&mut into[end - plain..])?;
        plain -= read;
    }
    push_tls(tls, socket)?;
    Ok(received)
}

fn push_tls(tls: &mut Connection, socket: &mut Socket) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(socket) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
