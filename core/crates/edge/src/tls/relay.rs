//! Relay of plaintext between a peer and a shard, both ways, buffering only the bytes that one side has not accepted
//! yet.
//!
//! The end of one side is passed to the other: the peer's end (`close_notify`) becomes an end towards the shard, and
//! the shard's end becomes a `close_notify` after all data that it has sent. The peer then gets a moment to end its
//! side, too: closing a socket with unread bytes would reset the connection, and the last answers would be lost.

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    pin::Pin,
    sync::atomic::AtomicU64,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    time::timeout,
};

use crate::counters::{ListenerCounters, add};

/// Number of bytes per read: four TLS records.
const CHUNK_BYTES: usize = 64 * 1024;
/// Capacity above which a buffer for unaccepted bytes is returned to the allocator.
const KEPT_BYTES: usize = 4 * 1024;
/// Time that a peer has to end its side after `close_notify`.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

thread_local! {
    /// One buffer for all connections of a thread: it is empty between two polls, so that an idle connection costs no
    /// buffer.
    static CHUNK: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK_BYTES].into_boxed_slice());
}

/// Relay until both sides have ended, or one of them failed. Returns the error of the peer's data or connection, if
/// that was the cause.
pub(crate) async fn relay<P, S>(
    mut peer: P,
    mut shard: S,
    counters: &ListenerCounters,
) -> Option<io::Error>
where
    P: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut inward = Flow::default();
    let mut outward = Flow::default();
    let ended = poll_fn(|context| {
        CHUNK.with_borrow_mut(|chunk| {
            let (peer, shard) = (Pin::new(&mut peer), Pin::new(&mut shard));
            poll_both(
                context,
                peer,
                shard,
                [&mut inward, &mut outward],
                chunk,
                counters,
            )
        })
    })
    .await;
    // The shard first: it must learn at once that its client has disconnected.
    drop(shard);
    match ended {
        Ended::ByShard => {
            let mut dropped = [0; 1024];
            let drain = async { while matches!(peer.read(&mut dropped).await, Ok(1..)) {} };
            // Data that the peer still sends is discarded.
            let _ = timeout(LINGER, drain).await;
            None
        }
        Ended::Broken(error) => error,
    }
}

/// Cause of a connection's end.
enum Ended {
    /// The shard has ended its side, and the peer was notified.
    ByShard,
    /// The connection failed; an error if it occurred on reading from the peer.
    Broken(Option<io::Error>),
}

/// Poll both directions; ready when nothing more can be relayed.
fn poll_both<P, S>(
    context: &mut Context<'_>,
    mut peer: Pin<&mut P>,
    mut shard: Pin<&mut S>,
    [inward, outward]: [&mut Flow; 2],
    chunk: &mut [u8],
    counters: &ListenerCounters,
) -> Poll<Ended>
where
    P: AsyncRead + AsyncWrite,
    S: AsyncRead + AsyncWrite,
{
    let sides = (peer.as_mut(), shard.as_mut());
    match inward.poll(context, sides, chunk, &counters.bytes_in) {
        // The peer's end was abrupt, and so is the shard's.
        Poll::Ready(Err(Broken::Reading(error))) => return Poll::Ready(Ended::Broken(Some(error))),
        // The shard has closed: its earlier data must still be read.
        Poll::Ready(Err(Broken::Writing) | Ok(())) | Poll::Pending => {}
    }
    let sides = (shard.as_mut(), peer.as_mut());
    outward
        .poll(context, sides, chunk, &counters.bytes_out)
        .map(|result| match result {
            Ok(()) => Ended::ByShard,
            Err(_) => Ended::Broken(None),
        })
}

/// Side of a flow that failed.
enum Broken {
    Reading(io::Error),
    Writing,
}

/// One direction of a relay.
#[derive(Default)]
struct Flow {
    /// Bytes that were read and not written yet.
    pending: Vec<u8>,
    written: usize,
    /// True if the writer may hold bytes back.
    unflushed: bool,
    source_ended: bool,
    done: bool,
}

impl Flow {
    /// Relay as much as possible. Ready when the source has ended and the target was notified, or when one of them
    /// failed.
    fn poll<R, W>(
        &mut self,
        context: &mut Context<'_>,
        (mut source, mut target): (Pin<&mut R>, Pin<&mut W>),
        chunk: &mut [u8],
        count: &AtomicU64,
    ) -> Poll<Result<(), Broken>>
    where
        R: AsyncRead,
        W: AsyncWrite,
    {
        if self.done {
            return Poll::Ready(Ok(()));
        }
        let polled = loop {
            if let Err(broken) = ready!(self.poll_write(context, target.as_mut())) {
                break Err(broken);
            }
            if self.source_ended {
                break ready!(target.as_mut().poll_shutdown(context)).map_err(|_| Broken::Writing);
            }
            let mut buffer = ReadBuf::new(chunk);
            match source.as_mut().poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => self.source_ended = true,
                Poll::Ready(Ok(())) => {
                    add(count, buffer.filled().len() as u64);
                    if let Err(broken) = self.begin_write(context, target.as_mut(), buffer.filled())
                    {
                        break Err(broken);
                    }
                }
                Poll::Ready(Err(error)) => break Err(Broken::Reading(error)),
                Poll::Pending => {
                    if self.unflushed && ready!(target.as_mut().poll_flush(context)).is_err() {
                        break Err(Broken::Writing);
                    }
                    self.unflushed = false;
                    return Poll::Pending;
                }
            }
        };
        self.done = true;
        Poll::Ready(polled)
    }

    /// Write the bytes just read; bytes that the target does not accept are kept.
    fn begin_write<W: AsyncWrite>(
        &mut self,
        context: &mut Context<'_>,
        mut target: Pin<&mut W>,
        mut bytes: &[u8],
    ) -> Result<(), Broken> {
        self.unflushed = true;
        while !bytes.is_empty() {
            match target.as_mut().poll_write(context, bytes) {
                Poll::Ready(Ok(0) | Err(_)) => return Err(Broken::Writing),
                Poll::Ready(Ok(count)) => bytes = &bytes[count..],
                Poll::Pending => {
                    self.pending.extend_from_slice(bytes);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Write the kept bytes.
    fn poll_write<W: AsyncWrite>(
        &mut self,
        context: &mut Context<'_>,
        mut target: Pin<&mut W>,
    ) -> Poll<Result<(), Broken>> {
        while self.written < self.pending.len() {
            let waiting = &self.pending[self.written..];
            match ready!(target.as_mut().poll_write(context, waiting)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(Broken::Writing)),
                Ok(count) => self.written += count,
            }
        }
        if self.written > 0 {
            self.written = 0;
            self.pending.clear();
            self.pending.shrink_to(KEPT_BYTES);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(future)
    }

    async fn send(writer: &mut WriteHalf<DuplexStream>, all: &[u8], piece: usize) {
        for piece in all.chunks(piece) {
            writer.write_all(piece).await.unwrap();
        }
    }

    async fn receive(mut reader: ReadHalf<DuplexStream>) -> Vec<u8> {
        let mut received = Vec::new();
        reader.read_to_end(&mut received).await.unwrap();
        received
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Every byte arrives once and in order, both ways, even with tiny buffers. The peer ends its side after
        /// sending everything, and the shard, as shards do, when it has seen that end.
        #[test]
        fn both_sides_get_what_the_other_has_sent(
            sizes in (0_usize..200_000, 0_usize..200_000),
            pieces in (1_usize..100_000, 1_usize..100_000),
            rooms in (50_usize..70_000, 50_usize..70_000),
        ) {
            let bytes = |count: usize, salt: usize| -> Vec<u8> {
                (0..count).map(|index| (index * 31 + salt).to_le_bytes()[0]).collect()
            };
            let (from_peer, from_shard) = (bytes(sizes.0, 1), bytes(sizes.1, 2));
            let counters = ListenerCounters::default();
            let (peer, peer_end) = duplex(rooms.0);
            let (shard, shard_end) = duplex(rooms.1);
            let as_peer = async {
                let (reader, mut writer) = split(peer_end);
                let sending = async {
                    send(&mut writer, &from_peer, pieces.0).await;
                    writer.shutdown().await.unwrap();
                };
                tokio::join!(receive(reader), sending).0
            };
            let as_shard = async {
                let (reader, mut writer) = split(shard_end);
                let sending = send(&mut writer, &from_shard, pieces.1);
                let received = tokio::join!(receive(reader), sending).0;
                writer.shutdown().await.unwrap();
                received
            };
            let relaying = relay(peer, shard, &counters);
            let (peer_got, shard_got, broken) =
                run(async { tokio::join!(as_peer, as_shard, relaying) });
            prop_assert!(broken.is_none());
            prop_assert!(peer_got == from_shard);
            prop_assert!(shard_got == from_peer);
            let report = counters.report();
            prop_assert_eq!(report.bytes_in, from_peer.len() as u64);
            prop_assert_eq!(report.bytes_out, from_shard.len() as u64);
        }
    }

    /// The shard sends a disconnect notice and closes while the peer is sending: the peer receives the notice, and is
    /// not cut off for a while.
    #[test]
    fn a_disconnect_notice_reaches_a_peer_that_goes_on_sending() {
        run(async {
            let (peer, peer_end) = duplex(1000);
            let (shard, mut shard_end) = duplex(1000);
            let counters = ListenerCounters::default();
            let (reader, mut writer) = split(peer_end);
            let chatter = async { while writer.write_all(&[7; 100]).await.is_ok() {} };
            let notice = async {
                shard_end.write_all(b"notice").await.unwrap();
                drop(shard_end);
                receive(reader).await
            };
            let began = tokio::time::Instant::now();
            let ((), heard, _) = tokio::join!(chatter, notice, relay(peer, shard, &counters));
            assert_eq!(heard, b"notice");
            assert!(began.elapsed() < LINGER * 10);
        });
    }
}
