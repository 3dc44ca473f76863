//! The metadata of a send, from the whole payload and from its prefix only. Input: number of bytes received (two
//! bytes), the payload.
#![no_main]

use headrace_wire::command::METADATA_PREFIX_BYTES_MAX;
use headrace_wire::{Command, CommandCode, SendMetadata};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((arrived, payload)) = bytes.split_first_chunk() else {
        return;
    };
    let Ok(payload_bytes) = u32::try_from(payload.len()) else {
        return;
    };
    let whole = SendMetadata::decode_prefix(payload, payload_bytes);

    // The documented prefix gives the same result as the whole payload; a shorter one may fail, but never succeed
    // differently.
    let enough = &payload[..payload.len().min(METADATA_PREFIX_BYTES_MAX)];
    assert_eq!(SendMetadata::decode_prefix(enough, payload_bytes), whole);
    let arrived = payload.len().min(usize::from(u16::from_le_bytes(*arrived)));
    let early = SendMetadata::decode_prefix(&payload[..arrived], payload_bytes);
    assert!(early.is_err() || early == whole);

    let command = Command::decode(CommandCode::SendMessages.code(), payload);
    match (whole, command) {
        (Ok(metadata), Ok(Command::SendMessages(send))) => {
            assert_eq!(metadata.with_payload(payload), Ok(send));
            assert_eq!(&payload[metadata.indexes_range()], send.indexes);
            assert_eq!(
                &payload[metadata.messages_range(payload.len())],
                send.messages
            );
        }
        (Err(expected), Err(status)) => assert_eq!(status, expected),
        (whole, command) => panic!("{whole:?} but {command:?}"),
    }
});
