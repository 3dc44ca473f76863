//! GW-1: round trips through this codec of exchanges recorded between official clients and the reference server.

use headrace_wire::{Command, CommandCode, Response, Status};

struct Exchange {
    line: usize,
    code: u32,
    request: Vec<u8>,
    status: Status,
    response: Vec<u8>,
}

fn exchanges() -> Vec<Exchange> {
    let exchanges: Vec<_> = include_str!("../data/classic.jsonl")
        .lines()
        .enumerate()
        .map(|(index, line)| {
            let value: serde_json::Value = serde_json::from_str(line).expect("a JSON object");
            let number = |key: &str| {
                let number = value[key].as_u64().expect("a number");
                u32::try_from(number).expect("32 bits")
            };
            Exchange {
                line: index + 1,
                code: number("code"),
                request: bytes(value["request"].as_str().expect("a text")),
                status: Status(number("status")),
                response: bytes(value["response"].as_str().expect("a text")),
            }
        })
        .collect();
    assert_eq!(exchanges.len(), 413, "the whole recording is here");
    exchanges
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    hexadecimal
        .as_bytes()
        .as_chunks::<2>()
        .0
        .iter()
        .map(|digits| {
            let digits = std::str::from_utf8(digits).expect("digits");
            u8::from_str_radix(digits, 16).expect("hexadecimal")
        })
        .collect()
}

/// Lines of requests that one official client pads with zeros. A server has to ignore the padding; this client sends
/// none.
const PADDED_LINES: [usize; 1] = [285];

#[test]
fn requests_decode_and_encode_back() {
    for exchange in exchanges() {
        let line = exchange.line;
        if CommandCode::try_from(exchange.code).is_err() {
            assert_eq!(exchange.status, Status::INVALID_COMMAND, "line {line}");
            assert_eq!(
                Command::decode(exchange.code, &exchange.request),
                Err(Status::INVALID_COMMAND),
                "line {line}"
            );
            continue;
        }
        let command = Command::decode(exchange.code, &exchange.request)
            .unwrap_or_else(|status| panic!("line {line}: code {}: {status}", exchange.code));
        assert_eq!(command.code().code(), exchange.code);
        let mut encoded = Vec::new();
        command.encode(&mut encoded);
        if PADDED_LINES.contains(&line) {
            let padding = exchange.request.strip_prefix(&*encoded);
            assert_eq!(padding, Some(&[0; 4][..]), "line {line}: {command:?}");
        } else {
            assert_eq!(encoded, exchange.request, "line {line}: {command:?}");
        }
    }
}

#[test]
fn recorded_batches_are_valid() {
    let mut batches = 0;
    for exchange in exchanges() {
        if let Ok(Command::SendMessages(send)) = Command::decode(exchange.code, &exchange.request) {
            assert_eq!(
                headrace_wire::batch::validate(send.indexes, send.messages, send.messages_count),
                Ok(()),
                "line {}",
                exchange.line
            );
            batches += 1;
        }
    }
    assert!(batches > 10);
}

#[test]
fn responses_decode_and_encode_back() {
    for exchange in exchanges() {
        let line = exchange.line;
        if !exchange.status.is_ok() {
            assert!(exchange.response.is_empty(), "line {line}");
            assert!(exchange.status.info().is_some(), "line {line}");
            continue;
        }
        let code = CommandCode::try_from(exchange.code).expect("a command that succeeded exists");
        let response = Response::decode(code, &exchange.response)
            .unwrap_or_else(|malformed| panic!("line {line}: {code:?}: {malformed}"));
        let mut encoded = Vec::new();
        response.encode(&mut encoded);
        assert_eq!(encoded, exchange.response, "line {line}: {response:?}");
        if let Response::Polled(polled) = response {
            polled.check().expect("whole messages");
            for message in polled.messages() {
                assert!(message.expect("whole").checksum_matches(), "line {line}");
            }
        }
    }
}
