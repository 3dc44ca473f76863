//! From the session to a stream.

use headrace_wire::{Status, frame::ResponseHeader};
use quinn::{SendStream, VarInt, WriteError};
use tokio::{sync::mpsc, time::timeout};

use super::budget::{Room, patience};

/// The stream was given up because its peer did not take its part in time.
pub(super) const TOO_SLOW: VarInt = VarInt::from_u32(1);
/// The peer need not send the rest.
pub(super) const NOT_NEEDED: VarInt = VarInt::from_u32(0);

/// A part of an answer: the first one begins with the header.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// Bytes of the whole answer.
    pub(super) answer_bytes: usize,
    pub(super) _room: Room,
}

/// Write an answer as it comes. The peer has until a deadline that depends on the answer's size; the session, which may
/// wait for messages in its behalf, has any time.
pub(super) async fn deliver(stream: &mut SendStream, mut pieces: mpsc::UnboundedReceiver<Piece>) {
    // Without a piece the session has ended, and the stream ends empty.
    let Some(first) = pieces.recv().await else {
        return;
    };
    let limit = patience(first.answer_bytes);
    let write = async {
        stream.write_all(&first.bytes).await?;
        drop(first);
        while let Some(piece) = pieces.recv().await {
            stream.write_all(&piece.bytes).await?;
        }
        Ok::<(), WriteError>(())
    };
    if timeout(limit, write).await.is_err() {
        // It fails when the peer has gone: nobody is to be told then.
        let _ = stream.reset(TOO_SLOW);
        return;
    }
    finish(stream).await;
}

/// Write an answer that is known without asking anybody.
pub(super) async fn refuse(stream: &mut SendStream, status: Status) {
    let header = ResponseHeader::error(status).encode();
    if let Ok(Ok(())) = timeout(patience(0), stream.write_all(&header)).await {
        finish(stream).await;
    }
}

/// End a stream, and wait until the peer has everything: a connection that closes drops what it has not sent.
async fn finish(stream: &mut SendStream) {
    if stream.finish().is_ok() {
        let _ = timeout(patience(0), stream.stopped()).await;
    }
}
