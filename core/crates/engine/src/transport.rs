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
            Poll::Ready(Err(error)) => {
                // A server that has closed the connection may have answered before.
                return match pin!(stream.read_buf(inbox)).poll(context) {
                    Poll::Ready(Ok(count)) if count > 0 => Poll::Ready(Ok(Progress::Received)),
                    _ => Poll::Ready(Err(error)),
                };
            }
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

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Waker;

    use bytes::Bytes;
    use tokio::io::ReadBuf;

    use super::*;

    /// A connection whose server has answered and closed it.
    struct Closed(&'static [u8]);

    impl AsyncRead for Closed {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            buffer.put_slice(std::mem::take(&mut self.0));
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Closed {
        fn poll_write(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            _bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn answers_are_received_although_nothing_can_be_written() {
        let mut transport = Transport::Bytes(Box::new(Closed(b"answer")));
        let (mut outbox, mut inbox) = (Outbox::default(), BytesMut::new());
        outbox.push([Bytes::from_static(b"request"), Bytes::new(), Bytes::new()]);
        let mut context = Context::from_waker(Waker::noop());
        let first = transport.poll_progress(&mut context, &mut outbox, &mut inbox);
        assert!(matches!(first, Poll::Ready(Ok(Progress::Received))));
        assert_eq!(inbox, &b"answer"[..]);
        let second = transport.poll_progress(&mut context, &mut outbox, &mut inbox);
        let Poll::Ready(Err(error)) = second else {
            panic!("{second:?}");
        };
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}
