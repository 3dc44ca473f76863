//! Payload of any successful response.

use alloc::vec::Vec;

use super::{decode_list, encode_list};
use crate::command::Attributes;
use crate::{CommandCode, Malformed};

/// Return whether a successful response to `code` may have no payload although there is a content for it.
fn may_be_empty(code: CommandCode) -> bool {
    // Only connections that have sent `ReportOffsets` get the content of an answer to `SendMessages`.
    code == CommandCode::SendMessages || code.attributes().has(Attributes::MAY_BE_MISSING)
}

include!(concat!(env!("OUT_DIR"), "/responses.rs"));

impl<'a> Response<'a> {
    /// Decode the payload of the successful response to `code`.
    ///
    /// An empty payload is [`Response::Empty`] if the command may answer "not found", and for batches of connections that
    /// have not sent `ReportOffsets`; otherwise it is [`Malformed::Truncated`]. Of `WatchPartitions` this is a notification: any number of them follows the empty
    /// response.
    pub fn decode(code: CommandCode, payload: &'a [u8]) -> Result<Self, Malformed> {
        if payload.is_empty() && may_be_empty(code) {
            return Ok(Self::Empty);
        }
        Self::decode_content(code, payload)
    }

    fn decode_empty(payload: &[u8]) -> Result<Self, Malformed> {
        if payload.is_empty() {
            Ok(Self::Empty)
        } else {
            Err(Malformed::TrailingBytes)
        }
    }
}
