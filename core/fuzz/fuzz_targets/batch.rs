//! Validation of a batch. Input: the count (one byte), then index block and messages.
#![no_main]

use headrace_wire::batch::{INDEX_BYTES, validate};
use headrace_wire::message::Messages;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&count, blocks)) = bytes.split_first() else {
        return;
    };
    let index_bytes = blocks.len().min(usize::from(count) * INDEX_BYTES);
    let (indexes, messages) = blocks.split_at(index_bytes);
    if validate(indexes, messages, u32::from(count)).is_err() {
        return;
    }

    // Guarantees of validation on which all later readers of the messages rely.
    let mut end = 0;
    let mut walked = 0;
    for message in Messages::new(messages) {
        let message = message.expect("validated");
        assert_eq!(message.header().reserved(), 0);
        end += message.bytes().len();
        walked += 1;
        if walked < usize::from(count) {
            let position = &indexes[(walked - 1) * INDEX_BYTES + 4..][..4];
            assert_eq!(position, u32::try_from(end).expect("small").to_le_bytes());
        }
    }
    assert_eq!(walked, usize::from(count));
    assert_eq!(end, messages.len());
});
