//! Frames of responses.

use headrace_buffer::Slice;
use headrace_wire::{
    Status,
    frame::ResponseHeader,
    response::{Polled, PolledHeader, ReadAnswer, ReadGap, encode_frame},
};

/// A response without payload.
pub(crate) fn status_response(status: Status) -> Slice {
    static SUCCESS: [u8; 8] = [0; 8];
    if status == Status::OK {
        return Slice::from_static(&SUCCESS);
    }
    Slice::from_vec(ResponseHeader::error(status).encode().to_vec())
}

/// A refusal with an explanatory text, for connections that have asked for it.
pub(crate) fn explained_response(status: Status, explanation: Option<&str>) -> Slice {
    let Some(text) = explanation else {
        return status_response(status);
    };
    let header = ResponseHeader {
        status,
        length: u32::try_from(text.len()).expect("an explanation is short"),
    };
    Slice::from_vec([&header.encode(), text.as_bytes()].concat())
}

/// A successful response around the payload that `encode` appends.
pub(crate) fn payload_response(encode: impl FnOnce(&mut Vec<u8>)) -> Slice {
    let mut bytes = Vec::new();
    encode_frame(&mut bytes, encode);
    Slice::from_vec(bytes)
}

/// Response to a member of a consumer group that has nothing to poll: all fields are 0.
pub(crate) fn nothing_polled(names_gaps: bool) -> Slice {
    let polled = Polled {
        header: PolledHeader::default(),
        message_bytes: &[],
    };
    if names_gaps {
        let gap = ReadGap::default();
        return payload_response(|out| ReadAnswer { gap, polled }.encode(out));
    }
    payload_response(|out| polled.encode(out))
}
