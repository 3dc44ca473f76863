//! Iterating over messages. Input: the messages.
#![no_main]

use headrace_wire::message::Messages;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut messages = Messages::new(bytes);
    let mut walked = 0;
    while let Some(message) = messages.next() {
        let Ok(message) = message else {
            assert_eq!(messages.next(), None, "an error ends the walk");
            return;
        };
        assert_eq!(
            message.header().message_bytes(),
            message.bytes().len() as u64
        );
        assert_eq!(
            &bytes[walked..walked + message.bytes().len()],
            message.bytes()
        );
        walked += message.bytes().len();
        let _ = message.checksum_matches();
    }
    assert_eq!(walked, bytes.len());
});
