//! Messages from a gateway over a link. Input: the code as four bytes, then the payload.
#![no_main]

use headrace_buffer::{Buffer, Slice};
use headrace_link::{SmallToNode, ToNode};
use libfuzzer_sys::fuzz_target;

fn bytes_of(frame: ToNode) -> Vec<u8> {
    let slices: Vec<Slice> = frame.encode();
    slices.iter().flat_map(|slice| slice.to_vec()).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let Some((code, payload)) = bytes.split_first_chunk() else {
        return;
    };
    let code = u32::from_le_bytes(*code);
    let owned = ToNode::decode_owned(code, Buffer::unpooled(payload)).map(bytes_of);
    let small = ToNode::decode(code, &mut payload.to_vec())
        .map(SmallToNode::into_owned)
        .map(bytes_of);
    // The kind of buffer does not matter; encoding a decoded message yields the same bytes.
    assert_eq!(owned, small);
    if let Ok(frame) = small {
        assert_eq!(frame[4..8], code.to_le_bytes());
        assert_eq!(&frame[8..], payload);
    }
});
