//! Messages from a partition node over a link. Input: the code as four bytes, then the payload.
#![no_main]

use headrace_buffer::Buffer;
use headrace_link::ToGateway;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((code, payload)) = bytes.split_first_chunk() else {
        return;
    };
    let code = u32::from_le_bytes(*code);
    let small = ToGateway::decode(code, payload);
    // The kind of buffer does not matter; encoding a decoded message yields the same bytes.
    assert_eq!(
        ToGateway::decode_owned(code, Buffer::unpooled(payload)),
        small
    );
    if let Ok(frame) = small {
        let slices = frame.encode();
        let frame: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        assert_eq!(frame[4..8], code.to_le_bytes());
        assert_eq!(&frame[8..], payload);
    }
});
