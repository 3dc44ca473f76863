//! The WebSocket protocol (RFC 6455) as functions over bytes: the HTTP upgrade and the frames, of servers and of
//! clients.
//!
//! The crate buffers no received bytes. A [`Decoder`] works on the receive buffer of the caller, unmasks in place and
//! returns the range of the payload, so that a large payload can be received, unmasked and used without a copy.

mod decoder;
mod frame;
mod handshake;
mod mask;
mod text;

pub use decoder::{Decoder, Item, Kind, Limits, Role, Step};
pub use frame::{
    CONTROL_FRAME_BYTES_MAX, CloseCode, Encoded, HEADER_BYTES_MAX, Opcode, ProtocolError,
    close_payload, encode_control, encode_header,
};
pub use handshake::{
    BadResponse, Origins, Refused, Upgrade, accept_key, check_response, read_request, refusal,
    request, response,
};
pub use mask::{apply_mask, mask_into};
