//! A byte stream as a connection receives it: frames back to back, decoded one after another.
#![no_main]

use headrace_wire::Command;
use headrace_wire::frame::{RequestHeader, ResponseHeader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Some((header, after)) = rest.split_first_chunk() {
        let request = RequestHeader::parse(header);
        assert_eq!(request.encode(), *header);
        assert_eq!(ResponseHeader::parse(header).encode(), *header);
        let payload_bytes = request.payload_bytes().unwrap_or(0) as usize;
        let Some((payload, after)) = after.split_at_checked(payload_bytes) else {
            break;
        };
        if let Ok(command) = Command::decode(request.code, payload) {
            let mut frame = Vec::new();
            command
                .try_encode_frame(&mut frame)
                .expect("what was decoded has an encoding");
        }
        rest = after;
    }
});
