//! Every response decoder. Input: the command's code as four bytes, then the payload.
#![no_main]

use headrace_wire::{CommandCode, Response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((code, payload)) = bytes.split_first_chunk() else {
        return;
    };
    let Ok(code) = CommandCode::try_from(u32::from_le_bytes(*code)) else {
        return;
    };
    let Ok(response) = Response::decode(code, payload) else {
        return;
    };
    if let Response::Polled(polled) = &response {
        let _ = polled.check();
    }
    let mut encoded = Vec::new();
    response.encode(&mut encoded);
    // Re-encoding yields the input; only the content of permissions has more than one encoding.
    if matches!(response, Response::User(_)) {
        let again = Response::decode(code, &encoded);
        assert_eq!(again.as_ref(), Ok(&response));
    } else {
        assert_eq!(encoded, payload);
    }
});
