//! Open connections: TCP, TLS, and WebSocket messages over either.

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::address::Address;
use crate::outbox::Outbox;
use crate::websocket::WebSocket;

/// A connection as a stream of bytes.
pub(crate) trait Bytestream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Bytestream for S {}

/// An open connection.
pub(crate) enum Transport {
    Bytes(Box<dyn Bytestream>),
    WebSocket(Box<WebSocket>),
}

/// Progress of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Bytes were received.
    Received,
    /// Bytes were written.
    Written,
}

impl Transport {
    pub(crate) async fn open(address: &Address, timeout: Duration) -> io::Result<Self> {
        match tokio::time::timeout(timeout, Self::open_in_time(address)).await {
            Ok(opened) => opened,
            Err(_) => Err(io::Error::new(
                ErrorKind::TimedOut,
                format!("no connection within {timeout:?}"),
            )),
        }
    }

    async fn open_in_time(address: &Address) -> io::Result<Self> {
        let tcp = TcpStream::connect(&address.host_port).await?;
        tcp.set_nodelay(true)?;
        let stream: Box<dyn Bytestream> = match &address.tls {
            None => Box::new(tcp),
            Some(tls) => Box::new(tls.connector.connect(tls.name.clone(), tcp).await?),
        };
        if !address.is_websocket {
            return Ok(Self::Bytes(stream));
        }
        let websocket = WebSocket::open(stream, &address.host_port).await?;
        Ok(Self::WebSocket(Box::new(websocket)))
    }

    /// Write what the outbox has and receive into the inbox, whichever is possible first.
    pub(crate) fn poll_progress(
        &mut self,
        context: &mut Context<'_>,
        outbox: &mut Outbox,
        inbox: &mut BytesMut,
    ) -> Poll<io::Result<Progress>> {
        match self {
            Self::Bytes(stream) => poll_bytes(stream, context, outbox, inbox),
            Self::WebSocket(websocket) => websocket.poll_progress(context, outbox, inbox),
        }
    }
}

fn poll_bytes(
    stream: &mut Box<dyn Bytestream>,
    context: &mut Context<'_>,
    outbox: &mut Outbox,
    inbox: &mut BytesMut,
) -> Poll<io::Result<Progress>> {
    if outbox.has_remaining() {
        match pin!(stream.write_buf(outbox)).poll(context) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(_)) => return Poll::Ready(Ok(Progress::Written)),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => {}
        }
    } else if let Poll::Ready(Err(error)) = pin!(stream.flush()).poll(context) {
        return Poll::Ready(Err(error));
    }
    match ready!(pin!(stream.read_buf(inbox)).poll(context))? {
        0 => Poll::Ready(Err(closed())),
        _ => Poll::Ready(Ok(Progress::Received)),
    }
}

pub(crate) fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")
}
