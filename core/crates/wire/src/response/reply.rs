//! Payload of any successful response.

use alloc::vec::Vec;

use super::{decode_list, encode_list};
use crate::command::Attributes;
use crate::{CommandCode, Malformed};

include!(concat!(env!("OUT_DIR"), "/responses.rs"));

impl<'a> Response<'a> {
    /// Decode the payload of the successful response to `code`.
    ///
    /// An empty payload is [`Response::Empty`] if the command may answer "not found", otherwise
    /// [`Malformed::Truncated`]. Of `WatchPartitions` this is a notification: any number of them follows the empty
    /// response.
    pub fn decode(code: CommandCode, payload: &'a [u8]) -> Result<Self, Malformed> {
        if payload.is_empty() && code.attributes().has(Attributes::MAY_BE_MISSING) {
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
