//! Delivery of answers from the session to a stream.

use headrace_wire::{Status, frame::ResponseHeader};
use quinn::{SendStream, VarInt, WriteError};
use tokio::{sync::mpsc, time::timeout};

use super::budget::{Room, time_limit};

/// Error code of a stream that was reset because its peer missed a deadline.
pub(super) const TOO_SLOW: VarInt = VarInt::from_u32(1);
/// Code that stops a stream whose remaining data is not needed.
pub(super) const NOT_NEEDED: VarInt = VarInt::from_u32(0);

/// A piece of an answer: the first one begins with the header.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// Size of the whole answer.
    pub(super) answer_bytes: usize,
    pub(super) _room: Room,
}

/// Write an answer as its pieces arrive. The peer has a deadline that depends on the answer's size; the session, which
/// may wait for messages on the peer's behalf, has none.
pub(super) async fn deliver(stream: &mut SendStream, mut pieces: mpsc::UnboundedReceiver<Piece>) {
    // Without a piece the session has ended, and the stream ends empty.
    let Some(first) = pieces.recv().await else {
        return;
    };
    let limit = time_limit(first.answer_bytes);
    let write = async {
        stream.write_all(&first.bytes).await?;
        drop(first);
        while let Some(piece) = pieces.recv().await {
            stream.write_all(&piece.bytes).await?;
        }
        Ok::<(), WriteError>(())
    };
    if timeout(limit, write).await.is_err() {
        // Fails if the peer has disconnected, so that there is no one to notify.
        let _ = stream.reset(TOO_SLOW);
        return;
    }
    finish(stream).await;
}

/// Write a refusal that does not need the session.
pub(super) async fn refuse(stream: &mut SendStream, status: Status) {
    write(stream, &ResponseHeader::error(status).encode()).await;
}

/// Write a whole answer that does not need the session.
pub(super) async fn write(stream: &mut SendStream, answer: &[u8]) {
    if let Ok(Ok(())) = timeout(time_limit(0), stream.write_all(answer)).await {
        finish(stream).await;
    }
}

/// Finish a stream, and wait until the peer has received everything: a connection that closes drops unsent data.
async fn finish(stream: &mut SendStream) {
    if stream.finish().is_ok() {
        let _ = timeout(time_limit(0), stream.stopped()).await;
    }
}
