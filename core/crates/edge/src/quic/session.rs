//! The session behind a connection: requests in, answers out, in the same order.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use headrace_wire::{
    CommandCode,
    frame::{RESPONSE_HEADER_BYTES, ResponseHeader},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::mpsc,
};

use super::{
    answer::Piece,
    budget::{Budget, PIECE_BYTES},
    request::Request,
};
use crate::counters::{ListenerCounters, add};

/// Maximum number of requests that the session has not answered. Further requests wait here rather than in its socket.
const IN_SESSION_MAX: usize = 256;

/// A request and the channel for its answer.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) request: Request,
    pub(super) answer: mpsc::UnboundedSender<Piece>,
}

/// An outstanding answer.
#[derive(Debug)]
pub(super) struct Expected {
    code: u32,
    answer: mpsc::UnboundedSender<Piece>,
}

/// Create the channel from the writer to the reader of one session.
pub(super) fn expected() -> (mpsc::Sender<Expected>, mpsc::Receiver<Expected>) {
    mpsc::channel(IN_SESSION_MAX)
}

/// Write requests into the session, one after the other, until it has ended.
pub(super) async fn write_requests(
    mut session: OwnedWriteHalf,
    mut requests: mpsc::Receiver<PendingRequest>,
    expected: mpsc::Sender<Expected>,
    counters: &ListenerCounters,
) {
    while let Some(PendingRequest { request, answer }) = requests.recv().await {
        if answer.is_closed() {
            // Its stream was reset while the request was queued.
            continue;
        }
        let code = request.code;
        if expected.send(Expected { code, answer }).await.is_err() {
            return;
        }
        add(&counters.bytes_in, request.frame.len() as u64);
        if session.write_all(&request.frame).await.is_err() {
            return;
        }
    }
}

/// Distribute the answers, until the session has ended. Reads only as much as there is room for.
pub(super) async fn read_answers(
    session: OwnedReadHalf,
    mut expected: mpsc::Receiver<Expected>,
    budget: &Budget,
    is_logged_in: &AtomicBool,
    counters: &ListenerCounters,
) -> io::Result<()> {
    let mut session = BufReader::new(session);
    loop {
        let mut header = [0; RESPONSE_HEADER_BYTES];
        session.read_exact(&mut header).await?;
        let ResponseHeader { status, length } = ResponseHeader::parse(&header);
        // A disconnect notice answers no request: over QUIC the close of the connection conveys the same.
        let answered = expected.try_recv().ok();
        if let Some(Expected { code, .. }) = &answered
            && status.is_ok()
        {
            note_login(*code, is_logged_in);
        }
        let answer_bytes = RESPONSE_HEADER_BYTES + length as usize;
        let mut left = answer_bytes;
        while left > 0 {
            let size = left.min(PIECE_BYTES);
            let room = budget.answer(size).await;
            let begun = if left == answer_bytes {
                &header[..]
            } else {
                &[]
            };
            let mut bytes = Vec::with_capacity(size);
            bytes.extend_from_slice(begun);
            bytes.resize(size, 0);
            session.read_exact(&mut bytes[begun.len()..]).await?;
            left -= size;
            if let Some(Expected { answer, .. }) = &answered {
                add(&counters.bytes_out, size as u64);
                // Fails if the stream was reset; the rest is read all the same, to find the next answer.
                let _ = answer.send(Piece {
                    bytes,
                    answer_bytes,
                    _room: room,
                });
            }
        }
    }
}

/// Track whether a user is logged in. This decides how much is buffered for a peer, not the peer's permissions.
fn note_login(code: u32, is_logged_in: &AtomicBool) {
    let [login, token, logout] = [
        CommandCode::LoginUser,
        CommandCode::LoginWithPersonalAccessToken,
        CommandCode::LogoutUser,
    ]
    .map(CommandCode::code);
    if code == login || code == token {
        is_logged_in.store(true, Ordering::Relaxed);
    } else if code == logout {
        is_logged_in.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use headrace_wire::{Status, frame::REQUEST_HEADER_BYTES};
    use proptest::prelude::*;
    use tokio::net::UnixStream;

    use super::*;
    use crate::quic::budget::SharedBudget;

    const PING: u32 = 1;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(future)
    }

    /// A session that answers with as many bytes as the request's payload asks for, all equal to its first byte.
    async fn echo(shard: UnixStream, requests: usize) {
        let (mut reader, mut writer) = shard.into_split();
        for _ in 0..requests {
            let mut frame = [0; REQUEST_HEADER_BYTES + 5];
            reader.read_exact(&mut frame).await.unwrap();
            let length = u32::from_le_bytes(*frame.last_chunk().unwrap());
            let header = ResponseHeader {
                status: Status::OK,
                length,
            };
            let payload = vec![frame[REQUEST_HEADER_BYTES]; length as usize];
            let answer = [&header.encode()[..], &payload].concat();
            writer.write_all(&answer).await.unwrap();
        }
    }

    fn frame(code: u32, mark: u8, answer_bytes: u32) -> Vec<u8> {
        let length = 9_u32.to_le_bytes();
        let payload = [&[mark][..], &answer_bytes.to_le_bytes()].concat();
        [&length[..], &code.to_le_bytes(), &payload].concat()
    }

    async fn request(budget: &Budget, code: u32, mark: u8, answer_bytes: u32) -> Request {
        Request {
            code,
            frame: frame(code, mark, answer_bytes),
            _room: budget.request(5).await,
        }
    }

    /// Contents of a stream: header, payload.
    async fn whole(mut pieces: mpsc::UnboundedReceiver<Piece>) -> Vec<u8> {
        let mut answer = Vec::new();
        while let Some(piece) = pieces.recv().await {
            assert!(piece.bytes.len() <= PIECE_BYTES);
            answer.extend_from_slice(&piece.bytes);
            assert!(answer.len() <= piece.answer_bytes);
        }
        answer
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Every stream receives the complete answer to its own request, also beside streams that were reset.
        #[test]
        fn each_stream_gets_its_own_answer(
            streams in prop::collection::vec((0_u32..200_000, any::<bool>()), 1..40),
        ) {
            run(async {
                let (ours, theirs) = UnixStream::pair().unwrap();
                let budget = Arc::new(SharedBudget::new(1 << 20).connection());
                let (reader, writer) = ours.into_split();
                let (requests, waiting) = mpsc::channel(4);
                let (asked, to_be_answered) = expected();
                let counters = Arc::new(ListenerCounters::default());
                tokio::spawn(echo(theirs, streams.len()));
                let (known, count) = (Arc::clone(&counters), Arc::clone(&counters));
                tokio::spawn(async move { write_requests(writer, waiting, asked, &known).await });
                let room = Arc::clone(&budget);
                tokio::spawn(async move {
                    let is_logged_in = AtomicBool::new(false);
                    read_answers(reader, to_be_answered, &room, &is_logged_in, &count).await
                });
                let mut waiting = Vec::new();
                for (index, (size, is_reset)) in streams.iter().enumerate() {
                    let mark = index.to_le_bytes()[0];
                    let (answer, pieces) = mpsc::unbounded_channel();
                    let request = request(&budget, PING, mark, *size).await;
                    assert!(requests.send(PendingRequest { request, answer }).await.is_ok());
                    if !is_reset {
                        waiting.push((mark, *size, tokio::spawn(whole(pieces))));
                    }
                }
                for (mark, size, pieces) in waiting {
                    let answer = pieces.await.unwrap();
                    let (header, payload) = answer.split_first_chunk().unwrap();
                    assert_eq!(ResponseHeader::parse(header).length, size);
                    assert_eq!(payload.len(), size as usize);
                    assert!(payload.iter().all(|byte| *byte == mark));
                }
            });
        }
    }

    /// A client that does not read its answer blocks the session once its connection's budget is spent, and only as
    /// long as the stream is open.
    #[test]
    fn what_is_not_taken_is_bounded() {
        run(async {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let budget = SharedBudget::without_loans().connection();
            let (reader, mut writer) = ours.into_split();
            let (asked, to_be_answered) = expected();
            let mut answers = Vec::new();
            for mark in [1, 2] {
                let (answer, pieces) = mpsc::unbounded_channel();
                let code = CommandCode::LoginUser.code();
                asked.send(Expected { code, answer }).await.unwrap();
                let size = if mark == 1 { 4 << 20 } else { 10 };
                writer.write_all(&frame(code, mark, size)).await.unwrap();
                answers.push(pieces);
            }
            tokio::spawn(echo(theirs, 2));
            let counters = ListenerCounters::default();
            let is_logged_in = AtomicBool::new(false);
            let reading = read_answers(reader, to_be_answered, &budget, &is_logged_in, &counters);
            let second = answers.pop().unwrap();
            let first = answers.pop().unwrap();
            let time_limit = std::time::Duration::from_millis(300);
            let mut reading = std::pin::pin!(reading);
            assert!(
                tokio::time::timeout(time_limit, &mut reading)
                    .await
                    .is_err()
            );
            let taken = counters.report().bytes_out;
            assert!((1..=512 * 1024).contains(&taken), "{taken}");
            assert!(is_logged_in.load(Ordering::Relaxed));
            // The first stream is reset; the second one receives its own answer.
            drop(first);
            let (_ended, second) = tokio::join!(reading, whole(second));
            assert_eq!(second[RESPONSE_HEADER_BYTES..], [2; 10]);
        });
    }
}
