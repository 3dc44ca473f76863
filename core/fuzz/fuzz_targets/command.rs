//! Every request decoder. Input: the code as four bytes, then the payload.
#![no_main]

use headrace_wire::{Command, Status};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((code, payload)) = bytes.split_first_chunk() else {
        return;
    };
    let code = u32::from_le_bytes(*code);
    match Command::decode(code, payload) {
        Ok(command) => {
            let mut encoded = Vec::new();
            command.encode(&mut encoded);
            assert_eq!(Command::decode(code, &encoded).as_ref(), Ok(&command));
            ask_the_accessors(&command);
        }
        Err(status) => assert!(matches!(
            status,
            Status::INVALID_COMMAND | Status::INVALID_FORMAT | Status::INVALID_IDENTIFIER
        )),
    }
});

/// Call the accessors for codes that decoding leaves to the handlers.
fn ask_the_accessors(command: &Command<'_>) {
    match command {
        Command::GetSnapshot(request) => {
            let _ = (request.compression(), request.kinds());
        }
        Command::CreateUser(request) => {
            let _ = request.status();
        }
        Command::UpdateUser(request) => {
            let _ = request.status();
        }
        Command::CreateTopic(request) => {
            let _ = request.compression();
        }
        Command::UpdateTopic(request) => {
            let _ = request.compression();
        }
        Command::PollMessages(request) => {
            let _ = request.consumer.key();
        }
        Command::WaitMessages(request) => {
            let _ = request.poll.consumer.key();
        }
        _ => {}
    }
}
