//! Malformed input: the documented status, and a connection that continues if the end of the frame is known.

use headrace_wire::{Command, Status, command::CreateStream};

use crate::world::{World, login};

fn frame(length: u32, code: u32, payload: &[u8]) -> Vec<u8> {
    [&length.to_le_bytes()[..], &code.to_le_bytes(), payload].concat()
}

fn whole(code: u32, payload: &[u8]) -> Vec<u8> {
    frame(u32::try_from(payload.len() + 4).unwrap(), code, payload)
}

/// Write `bytes`, expect `status`, and expect the connection to remain usable.
fn answered(bytes: &[u8], status: Status) {
    let mut world = World::new().with_topic(1);
    let link = world.login(0);
    world.write(link, bytes);
    assert_eq!(world.reply(link).status, status);
    assert_eq!(world.ask(link, &Command::Ping).status, Status::OK);
    assert!(!world.is_closed(link));
}

#[test]
fn a_length_below_four() {
    answered(&frame(3, 1, &[]), Status::INVALID_COMMAND);
    answered(&frame(0, 1, &[]), Status::INVALID_COMMAND);
}

#[test]
fn an_unknown_code() {
    answered(&whole(60_000, b"whatever"), Status::INVALID_COMMAND);
    answered(&whole(0, &vec![0; 100_000]), Status::INVALID_COMMAND);
}

/// The payload is skipped, not parsed as frames.
#[test]
fn a_control_payload_over_ten_mebibytes() {
    answered(
        &whole(202, &vec![1; 10 * 1024 * 1024 + 1]),
        Status::INVALID_COMMAND,
    );
}

#[test]
fn a_batch_over_the_limit() {
    answered(
        &whole(101, &vec![1; (4 << 20) + 1]),
        Status::INVALID_COMMAND,
    );
}

#[test]
fn payloads_that_cannot_be_decoded() {
    answered(&whole(202, &[]), Status::INVALID_COMMAND);
    answered(&whole(202, &[5, b'a']), Status::INVALID_COMMAND);
    answered(&whole(202, &[1, 0xff]), Status::INVALID_COMMAND);
    answered(&whole(200, &[9, 4, 0, 0, 0, 0]), Status::INVALID_COMMAND);
}

#[test]
fn payloads_that_break_a_rule() {
    answered(&whole(202, &[0]), Status::INVALID_FORMAT);
    answered(&whole(200, &[1, 3, 0, 0, 0]), Status::INVALID_FORMAT);
}

#[test]
fn bytes_behind_a_payload_are_ignored() {
    answered(&whole(200, &[1, 4, 0, 0, 0, 0, 9, 9, 9]), Status::OK);
    answered(&whole(201, b"padding"), Status::OK);
}

/// Decoding precedes the login check, except for batches, which are refused by their header.
#[test]
fn without_login() {
    for (bytes, status) in [
        (whole(202, &[0]), Status::INVALID_FORMAT),
        (whole(202, &[1, b'x']), Status::UNAUTHENTICATED),
        (whole(101, &vec![7; 50_000]), Status::UNAUTHENTICATED),
        (whole(101, &[]), Status::UNAUTHENTICATED),
    ] {
        let mut world = World::new();
        let link = world.connect(1);
        world.write(link, &bytes);
        assert_eq!(world.reply(link).status, status);
        assert_eq!(world.ask(link, &login("secret")).status, Status::OK);
    }
}

#[test]
fn a_frame_in_single_bytes() {
    let mut world = World::new();
    let link = world.connect(0);
    let mut bytes = Vec::new();
    login("secret").try_encode_frame(&mut bytes).unwrap();
    for byte in bytes {
        assert_eq!(world.try_reply(link), None);
        world.write(link, &[byte]);
    }
    assert_eq!(world.reply(link).status, Status::OK);
}

/// Names are displayed on terminals and written to logs: new names must not contain control characters.
#[test]
fn control_characters_in_new_names() {
    let mut world = World::new().with_topic(1);
    let link = world.login(0);
    for name in ["a\nb", "\u{1b}[31m", "\u{7f}", "\u{9b}x"] {
        let create = Command::CreateStream(CreateStream { name });
        assert_eq!(world.ask(link, &create).status, Status::INVALID_FORMAT);
    }
    let create = Command::CreateStream(CreateStream {
        name: "Grüße 1\u{a0}✓",
    });
    assert_eq!(world.ask(link, &create).status, Status::OK);
}
