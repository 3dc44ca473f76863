//! One QUIC connection: its streams and the session that they share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use quinn::{Connection, RecvStream, SendStream, VarInt};
use tokio::{net::UnixStream, sync::mpsc, task::JoinSet, time::timeout};

use super::{
    answer::{NOT_NEEDED, TOO_SLOW, deliver, refuse, write},
    budget::{Budget, SharedBudget},
    request::{Limits, NoRequest, receive},
    session::{PendingRequest, expected, read_answers, write_requests},
};
use crate::counters::ListenerCounters;

/// Maximum number of complete requests that wait for the session.
const WAITING_MAX: usize = 64;
/// Time after the end of the session for earlier answers to reach the peer.
const FAREWELL: Duration = Duration::from_secs(1);
/// Error code of a normal close.
const NO_ERROR: VarInt = VarInt::from_u32(0);

/// State shared by the streams of a connection.
struct Shared {
    budget: Budget,
    is_logged_in: AtomicBool,
    /// True after a request of a newer client.
    is_newer: AtomicBool,
    send_payload_bytes_max: usize,
    session: mpsc::Sender<PendingRequest>,
}

/// Serve a connection until its peer or its session has ended. Returns true if its client is a newer one.
pub(super) async fn serve(
    connection: &Connection,
    session: UnixStream,
    budget: &SharedBudget,
    send_payload_bytes_max: usize,
    counters: &ListenerCounters,
) -> bool {
    let (reader, writer) = session.into_split();
    let (requests, waiting) = mpsc::channel(WAITING_MAX);
    let (asked, to_be_answered) = expected();
    let shared = Arc::new(Shared {
        budget: budget.connection(),
        is_logged_in: AtomicBool::new(false),
        is_newer: AtomicBool::new(false),
        send_payload_bytes_max,
        session: requests,
    });
    let mut streams = JoinSet::new();
    tokio::select! {
        () = write_requests(writer, waiting, asked, counters) => {}
        _ended = read_answers(reader, to_be_answered, &shared.budget, &shared.is_logged_in, counters) => {}
        () = accept_streams(connection, &shared, &mut streams) => {}
    }
    // Dropping the session's ends notifies the shard, and ends the streams that will get no answer.
    let _ = timeout(FAREWELL, async {
        while streams.join_next().await.is_some() {}
    })
    .await;
    connection.close(NO_ERROR, b"the session has ended");
    shared.is_newer.load(Ordering::Relaxed)
}

/// Serve every stream that the peer opens, until the connection closes.
async fn accept_streams(connection: &Connection, shared: &Arc<Shared>, streams: &mut JoinSet<()>) {
    while let Ok((sender, receiver)) = connection.accept_bi().await {
        while streams.try_join_next().is_some() {}
        let shared = Arc::clone(shared);
        streams.spawn(async move { shared.serve_stream(sender, receiver).await });
    }
    streams.abort_all();
}

impl Shared {
    async fn serve_stream(&self, mut sender: SendStream, mut receiver: RecvStream) {
        let limits = || Limits {
            send_payload_bytes_max: self.send_payload_bytes_max,
            is_logged_in: self.is_logged_in.load(Ordering::Relaxed),
        };
        match receive(&mut receiver, &self.budget, limits).await {
            Ok(request) => {
                let (answer, pieces) = mpsc::unbounded_channel();
                let pending = PendingRequest { request, answer };
                if self.session.send(pending).await.is_ok() {
                    deliver(&mut sender, pieces).await;
                }
            }
            Err(NoRequest::Refused(status)) => {
                // These calls fail if the peer has reset its side and no longer wants an answer.
                let _ = receiver.stop(NOT_NEEDED);
                refuse(&mut sender, status).await;
            }
            Err(NoRequest::Newer(answer)) => {
                self.is_newer.store(true, Ordering::Relaxed);
                let _ = receiver.stop(NOT_NEEDED);
                write(&mut sender, &*answer).await;
            }
            // Dropping the sender ends the stream, empty.
            Err(NoRequest::NoFrame) => {}
            Err(NoRequest::TooSlow) => {
                let _ = receiver.stop(TOO_SLOW);
                let _ = sender.reset(TOO_SLOW);
            }
        }
    }
}
