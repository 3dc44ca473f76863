//! Receiving end of a WebSocket, of both roles: the upgrade, then frames. Input: the number of bytes that arrive at a
//! time, then the bytes.
#![no_main]

use headrace_websocket::{
    CONTROL_FRAME_BYTES_MAX, Decoder, Item, Limits, Origins, Role, Step, read_request,
};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits {
    frame_bytes_max: 4096,
    message_bytes_max: 8192,
};

/// Collect all output: kinds, payloads, and the end of the connection.
fn listen(role: Role, stream: &[u8], piece_bytes: usize) -> Vec<String> {
    let mut decoder = Decoder::new(role, LIMITS);
    let mut waiting = Vec::new();
    let mut heard = Vec::new();
    let mut message: Vec<u8> = Vec::new();
    for piece in stream.chunks(piece_bytes.max(1)) {
        waiting.extend_from_slice(piece);
        loop {
            let (item, consumed) = match decoder.next(&mut waiting) {
                Ok(Step::Item { item, consumed }) => (item, consumed),
                Ok(Step::Incomplete) => break,
                Err(error) => {
                    assert!((1002..=1009).contains(&error.close_code().0));
                    heard.push(error.to_string());
                    return heard;
                }
            };
            match item {
                Item::Data {
                    kind,
                    payload,
                    ends_message,
                    ..
                } => {
                    message.extend_from_slice(&waiting[payload]);
                    assert!(message.len() as u64 <= LIMITS.message_bytes_max);
                    if ends_message {
                        heard.push(format!("{kind:?} {message:02x?}"));
                        message.clear();
                    }
                }
                Item::Ping { payload } => {
                    heard.push(format!("ping {:02x?}", &waiting[payload]));
                }
                other => heard.push(format!("{other:?}")),
            }
            waiting.drain(..consumed);
        }
        assert!(
            waiting.len() < CONTROL_FRAME_BYTES_MAX,
            "what waits is bounded"
        );
    }
    heard
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&piece_bytes, stream)) = bytes.split_first() else {
        return;
    };
    let _ = read_request(stream, &Origins::default());
    for role in [Role::Server, Role::Client] {
        // The result does not depend on how the input is split.
        let whole = listen(role, stream, stream.len());
        assert_eq!(whole, listen(role, stream, piece_bytes.into()));
        assert_eq!(whole, listen(role, stream, 1));
    }
});
