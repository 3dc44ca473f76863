//! Reading a request from a stream and validating it before it goes to the session.

use headrace_model::limits::CONTROL_PAYLOAD_SIZE_BYTES_MAX;
use headrace_wire::{
    CommandCode, Status,
    command::Attributes,
    frame::{REQUEST_HEADER_BYTES, RequestHeader},
    newer,
};
use quinn::{ReadExactError, RecvStream};
use tokio::time::timeout;

use super::budget::{
    Budget, Room, SMALL_REQUEST_BYTES_MAX, UNAUTHENTICATED_REQUEST_BYTES_MAX, time_limit,
};

/// A request that was received completely.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) code: u32,
    /// Header and payload.
    pub(super) frame: Vec<u8>,
    pub(super) _room: Room,
}

/// Reason why a stream yields no request.
#[derive(Debug)]
pub(super) enum NoRequest {
    /// Refused without the session: this status is the answer, whatever else the stream holds.
    Refused(Status),
    /// A request of a newer client, whose protocol is not spoken here: this is the answer.
    Newer(Box<[u8; newer::HEADER_BYTES]>),
    /// Incomplete frame: the stream ends without an answer.
    NoFrame,
    /// The peer missed the deadline.
    TooSlow,
}

/// Limits for the requests of one client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum payload of one `SendMessages`.
    pub(super) send_payload_bytes_max: usize,
    /// True after a successful login.
    pub(super) is_logged_in: bool,
}

impl Limits {
    /// Status with which the session would refuse a request of this size, or `UNAUTHENTICATED` if the request is too
    /// large to buffer for an unauthenticated client. Notifications answer no request, so they have no stream: a command
    /// that causes them is refused.
    fn refusal(self, code: u32, payload_bytes: usize) -> Option<Status> {
        let Ok(command) = CommandCode::try_from(code) else {
            return Some(Status::INVALID_COMMAND);
        };
        if command == CommandCode::WatchPartitions {
            return Some(Status::INVALID_COMMAND);
        }
        let is_send = command.attributes().has(Attributes::CARRIES_MESSAGES);
        if !self.is_logged_in && (is_send || payload_bytes > UNAUTHENTICATED_REQUEST_BYTES_MAX) {
            return Some(Status::UNAUTHENTICATED);
        }
        let max = if is_send {
            self.send_payload_bytes_max
        } else {
            CONTROL_PAYLOAD_SIZE_BYTES_MAX as usize
        };
        (payload_bytes > max).then_some(Status::INVALID_COMMAND)
    }
}

/// Receive the one frame of a stream. Data after it is ignored, and the end of the stream is not awaited.
pub(super) async fn receive(
    stream: &mut RecvStream,
    budget: &Budget,
    limits: impl FnOnce() -> Limits,
) -> Result<Request, NoRequest> {
    let mut header = [0; REQUEST_HEADER_BYTES];
    in_time(stream, &mut header).await?;
    let RequestHeader { code, .. } = RequestHeader::parse(&header);
    let Some(payload_bytes) = RequestHeader::parse(&header).payload_bytes() else {
        return Err(short_frame(stream, header).await);
    };
    let payload_bytes = payload_bytes as usize;
    if let Some(status) = limits().refusal(code, payload_bytes) {
        return Err(NoRequest::Refused(status));
    }
    let room = budget.request(payload_bytes).await;
    let payload = receive_payload(stream, header, payload_bytes);
    let received = timeout(time_limit(payload_bytes), payload).await;
    let frame = received.map_err(|_late| NoRequest::TooSlow)??;
    Ok(Request {
        code,
        frame,
        _room: room,
    })
}

/// Receive more of a frame that is too short for a command code: it may be the beginning of a newer client's header.
async fn short_frame(stream: &mut RecvStream, first: [u8; REQUEST_HEADER_BYTES]) -> NoRequest {
    let mut header = [0; newer::HEADER_BYTES];
    header[..REQUEST_HEADER_BYTES].copy_from_slice(&first);
    if let Err(reason) = in_time(stream, &mut header[REQUEST_HEADER_BYTES..]).await {
        return reason;
    }
    match newer::parse(&header) {
        Some(_) => NoRequest::Newer(Box::new(newer::answer(&header))),
        None => NoRequest::NoFrame,
    }
}

/// Receive the payload. Memory is allocated as bytes arrive, not as they are announced.
async fn receive_payload(
    stream: &mut RecvStream,
    header: [u8; REQUEST_HEADER_BYTES],
    payload_bytes: usize,
) -> Result<Vec<u8>, NoRequest> {
    let mut frame = header.to_vec();
    let whole = REQUEST_HEADER_BYTES + payload_bytes;
    while frame.len() < whole {
        let filled = frame.len();
        let step = (whole - filled).min(filled.max(SMALL_REQUEST_BYTES_MAX));
        frame.reserve_exact(step);
        frame.resize(filled + step, 0);
        let read = stream.read_exact(&mut frame[filled..]).await;
        read.map_err(|_ended| NoRequest::NoFrame)?;
    }
    Ok(frame)
}

async fn in_time(stream: &mut RecvStream, bytes: &mut [u8]) -> Result<(), NoRequest> {
    let time_limit = time_limit(bytes.len());
    match timeout(time_limit, stream.read_exact(bytes)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(ReadExactError::FinishedEarly(_) | ReadExactError::ReadError(_))) => {
            Err(NoRequest::NoFrame)
        }
        Err(_late) => Err(NoRequest::TooSlow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes are refused as the session would refuse them, and little is buffered for an unauthenticated client.
    #[test]
    fn refusals() {
        let known = Limits {
            send_payload_bytes_max: 1 << 24,
            is_logged_in: true,
        };
        let unknown = Limits {
            is_logged_in: false,
            ..known
        };
        let send = CommandCode::SendMessages.code();
        let stage = CommandCode::StageMessages.code();
        let create = CommandCode::CreateStream.code();
        assert_eq!(known.refusal(send, 1 << 24), None);
        assert_eq!(known.refusal(stage, 1 << 24), None);
        assert_eq!(
            known.refusal(send, (1 << 24) + 1),
            Some(Status::INVALID_COMMAND)
        );
        assert_eq!(
            known.refusal(create, CONTROL_PAYLOAD_SIZE_BYTES_MAX as usize),
            None
        );
        assert_eq!(
            known.refusal(create, 1 << 24),
            Some(Status::INVALID_COMMAND)
        );
        assert_eq!(known.refusal(9999, 0), Some(Status::INVALID_COMMAND));
        let watch = CommandCode::WatchPartitions.code();
        assert_eq!(known.refusal(watch, 20), Some(Status::INVALID_COMMAND));
        assert_eq!(unknown.refusal(send, 0), Some(Status::UNAUTHENTICATED));
        assert_eq!(unknown.refusal(create, 0), None);
        assert_eq!(
            unknown.refusal(create, 4 * 1024 + 1),
            Some(Status::UNAUTHENTICATED)
        );
        assert_eq!(
            unknown.refusal(9999, 1 << 30),
            Some(Status::INVALID_COMMAND)
        );
    }
}
