use proptest::prelude::*;

use super::*;
use crate::{CONTROL_FRAME_BYTES_MAX, close_payload, encode_control, encode_header};

const LIMITS: Limits = Limits {
    frame_bytes_max: 1000,
    message_bytes_max: 2000,
};
const KEY: [u8; 4] = [0x12, 0xff, 0x00, 0x9a];

/// Decoder output, with the fragments of a message joined.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Received {
    Message(Kind, Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    Close(Option<CloseCode>),
    Failed(ProtocolError),
}

/// Receive `stream` in pieces like a connection: unconsumed bytes stay in front of the next piece.
fn receive_in_pieces(role: Role, stream: &[u8], pieces: &[usize]) -> Vec<Received> {
    let mut decoder = Decoder::new(role, LIMITS);
    let mut heard = Vec::new();
    let mut message = Vec::new();
    let mut waiting: Vec<u8> = Vec::new();
    let mut rest = stream;
    for piece in pieces.iter().cycle() {
        let (front, back) = rest.split_at((*piece).min(rest.len()));
        waiting.extend(front);
        loop {
            let step = match decoder.next(&mut waiting) {
                Ok(step) => step,
                Err(error) => {
                    heard.push(Received::Failed(error));
                    return heard;
                }
            };
            let Step::Item { item, consumed } = step else {
                break;
            };
            assert!(consumed <= waiting.len());
            match item {
                Item::Data {
                    kind,
                    payload,
                    ends_message,
                    ..
                } => {
                    message.extend(&waiting[payload]);
                    if ends_message {
                        heard.push(Received::Message(kind, core::mem::take(&mut message)));
                    }
                }
                Item::Ping { payload } => heard.push(Received::Ping(waiting[payload].to_vec())),
                Item::Pong => heard.push(Received::Pong),
                Item::Close { code } => heard.push(Received::Close(code)),
            }
            waiting.drain(..consumed);
        }
        assert!(
            waiting.len() < CONTROL_FRAME_BYTES_MAX,
            "what waits is bounded"
        );
        rest = back;
        if rest.is_empty() {
            return heard;
        }
    }
    heard
}

fn frame(opcode: u8, is_final: bool, payload: &[u8], key: Option<[u8; 4]>) -> Vec<u8> {
    let mut bytes = encode_header(Opcode::Binary, payload.len(), key)
        .as_slice()
        .to_vec();
    bytes[0] = u8::from(is_final) << 7 | opcode;
    let start = bytes.len();
    bytes.extend(payload);
    if let Some(key) = key {
        apply_mask(&mut bytes[start..], key, 0);
    }
    bytes
}

fn masked(opcode: u8, is_final: bool, payload: &[u8]) -> Vec<u8> {
    frame(opcode, is_final, payload, Some(KEY))
}

fn served(stream: &[u8]) -> Vec<Received> {
    receive_in_pieces(Role::Server, stream, &[stream.len().max(1)])
}

/// Source: RFC 6455, section 5.7.
#[test]
fn the_examples_of_the_standard() {
    let hello = [
        0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
    ];
    assert_eq!(
        served(&hello),
        [Received::Message(Kind::Text, b"Hello".to_vec())]
    );
    let parts = [0x01, 0x03, 0x48, 0x65, 0x6c, 0x80, 0x02, 0x6c, 0x6f];
    assert_eq!(
        receive_in_pieces(Role::Client, &parts, &[1]),
        [Received::Message(Kind::Text, b"Hello".to_vec())]
    );
    let ping = [0x89, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f];
    assert_eq!(
        receive_in_pieces(Role::Client, &ping, &[7]),
        [Received::Ping(b"Hello".to_vec())]
    );
}

/// GW-2: protocol violations and the close code of each.
#[test]
fn violations_are_named() {
    let close = |payload: &[u8]| masked(8, true, payload);
    for (stream, error, code) in [
        (
            masked(2 | 0x40, true, b""),
            ProtocolError::ReservedBit,
            1002,
        ),
        (
            masked(2 | 0x10, true, b""),
            ProtocolError::ReservedBit,
            1002,
        ),
        (masked(3, true, b""), ProtocolError::UnknownOpcode(3), 1002),
        (
            masked(11, true, b""),
            ProtocolError::UnknownOpcode(11),
            1002,
        ),
        (frame(2, true, b"x", None), ProtocolError::NotMasked, 1002),
        (
            masked(9, false, b""),
            ProtocolError::FragmentedControl,
            1002,
        ),
        (
            masked(9, true, &[0; 126]),
            ProtocolError::ControlTooLong,
            1002,
        ),
        (
            masked(0, true, b"x"),
            ProtocolError::NothingToContinue,
            1002,
        ),
        (
            [masked(2, false, b"x"), masked(2, true, b"y")].concat(),
            ProtocolError::MessageNotEnded,
            1002,
        ),
        (
            [&[0x82, 0xff][..], &[0xff; 8], &KEY].concat(),
            ProtocolError::LengthBeyond63Bits,
            1002,
        ),
        (close(&[3]), ProtocolError::InvalidCloseFrame, 1002),
        (close(&[0x03, 0xed]), ProtocolError::InvalidCloseFrame, 1002),
        (close(&[0x03, 0xe8, 0xff]), ProtocolError::InvalidUtf8, 1007),
        (masked(1, true, &[0xc3]), ProtocolError::InvalidUtf8, 1007),
        (
            [masked(1, false, &[0xc3]), masked(0, true, b"x")].concat(),
            ProtocolError::InvalidUtf8,
            1007,
        ),
        (
            masked(2, true, &[0; 1001])[..14].to_vec(),
            ProtocolError::FrameTooLarge {
                size_bytes: 1001,
                limit_bytes: 1000,
            },
            1009,
        ),
        (
            [
                masked(2, false, &[0; 1000]),
                masked(0, false, &[0; 1000]),
                masked(0, false, &[0; 1]),
            ]
            .concat(),
            ProtocolError::MessageTooLarge { limit_bytes: 2000 },
            1009,
        ),
    ] {
        let heard = served(&stream);
        assert_eq!(heard.last(), Some(&Received::Failed(error)));
        assert_eq!(error.close_code().0, code);
        assert_eq!(
            receive_in_pieces(Role::Server, &stream, &[1]).last(),
            Some(&Received::Failed(error))
        );
    }
    assert_eq!(
        receive_in_pieces(Role::Client, &masked(2, true, b"x"), &[9]),
        [Received::Failed(ProtocolError::Masked)]
    );
}

#[test]
fn codes_of_close_frames() {
    let heard = |code: u16| served(&masked(8, true, &code.to_be_bytes()));
    for code in [1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 4999] {
        assert_eq!(
            heard(code),
            [Received::Close(Some(CloseCode(code)))],
            "{code}"
        );
    }
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_535] {
        assert_eq!(
            heard(code),
            [Received::Failed(ProtocolError::InvalidCloseFrame)],
            "{code}"
        );
    }
    assert_eq!(served(&masked(8, true, b"")), [Received::Close(None)]);
}

/// A reason is truncated at a character boundary, so that the frame stays valid.
#[test]
fn long_reasons_are_cut() {
    let payload = close_payload(CloseCode::TOO_BIG, &"ä".repeat(100));
    assert_eq!(payload.len(), 2 + 122);
    let mut control = Vec::new();
    encode_control(&mut control, Opcode::Close, &payload, None);
    assert_eq!(
        receive_in_pieces(Role::Client, &control, &[5]),
        [Received::Close(Some(CloseCode::TOO_BIG))]
    );
}

/// A batch is received into a separate buffer: its bytes never pass through `next`.
#[test]
fn a_payload_may_be_received_elsewhere() {
    let mut decoder = Decoder::new(Role::Server, LIMITS);
    let stream = masked(2, true, &[9; 500]);
    let (header, body) = stream.split_at(14 - 6 + 3);
    let mut front = header.to_vec();
    let Ok(Step::Item { item, .. }) = decoder.next(&mut front) else {
        panic!("the first bytes");
    };
    let Item::Data {
        payload,
        ends_message: false,
        ..
    } = item
    else {
        panic!("{item:?}");
    };
    assert!(front[payload.clone()].iter().all(|byte| *byte == 9));
    assert_eq!(decoder.binary_bytes_left(), (500 - payload.len()) as u64);
    let mut elsewhere = body.to_vec();
    assert_eq!(decoder.payload(&mut elsewhere), Ok((Kind::Binary, true)));
    assert!(elsewhere.iter().all(|byte| *byte == 9));
    assert_eq!(decoder.binary_bytes_left(), 0);
    assert!(!decoder.is_inside_message());
}

/// Items of a decoder that accepts compressed messages: payload, end of the message, compression.
fn negotiated(stream: &[u8]) -> Result<Vec<(Vec<u8>, bool, bool)>, ProtocolError> {
    let mut decoder = Decoder::new(Role::Server, LIMITS).with_compression();
    let mut waiting = stream.to_vec();
    let mut items = Vec::new();
    while let Step::Item { item, consumed } = decoder.next(&mut waiting)? {
        if let Item::Data {
            payload,
            ends_message,
            is_compressed,
            ..
        } = item
        {
            items.push((waiting[payload].to_vec(), ends_message, is_compressed));
        }
        waiting.drain(..consumed);
    }
    Ok(items)
}

/// The first frame of a message says whether it is compressed. Only plain texts are checked.
/// Source: RFC 7692, section 6.
#[test]
fn a_compressed_message_is_returned_as_it_is() {
    let stream = [
        masked(1 | 0x40, false, b"\xff"),
        masked(9, true, b"ping"),
        masked(0, true, b"\xfe"),
        masked(1, true, b"plain"),
    ];
    assert_eq!(
        negotiated(&stream.concat()),
        Ok(vec![
            (b"\xff".to_vec(), false, true),
            (b"\xfe".to_vec(), true, true),
            (b"plain".to_vec(), true, false),
        ])
    );
    for wrong in [
        masked(9 | 0x40, true, b""),
        masked(2 | 0x60, true, b""),
        masked(2 | 0x20, true, b""),
        [masked(2 | 0x40, false, b""), masked(0x40, true, b"")].concat(),
    ] {
        assert_eq!(negotiated(&wrong), Err(ProtocolError::ReservedBit));
    }
    assert_eq!(
        negotiated(&masked(1, true, b"\xff")),
        Err(ProtocolError::InvalidUtf8)
    );
}

/// A login is limited more strictly than what follows it.
#[test]
fn limits_change_between_frames() {
    let small = Limits {
        frame_bytes_max: 10,
        message_bytes_max: 10,
    };
    let mut decoder = Decoder::new(Role::Server, small);
    let mut large = masked(2, true, &[0; 11]);
    assert!(decoder.clone().next(&mut large.clone()).is_err());
    decoder.set_limits(LIMITS);
    assert!(decoder.next(&mut large).is_ok());
}

fn any_message() -> impl Strategy<Value = (Vec<u8>, Vec<Received>)> {
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec(any::<u8>(), 120..130)
    ];
    prop_oneof![
        (payload, prop::collection::vec(0_usize..150, 0..4)).prop_map(|(payload, cuts)| {
            let stream = fragmented(2, &payload, &cuts);
            (stream, vec![Received::Message(Kind::Binary, payload)])
        }),
        (any::<String>(), prop::collection::vec(0_usize..20, 0..4)).prop_map(|(text, cuts)| {
            let stream = fragmented(1, text.as_bytes(), &cuts);
            let text = text.into_bytes();
            (stream, vec![Received::Message(Kind::Text, text)])
        }),
        prop::collection::vec(any::<u8>(), 0..126)
            .prop_map(|payload| (masked(9, true, &payload), vec![Received::Ping(payload)])),
        Just((masked(10, true, b"late"), vec![Received::Pong])),
    ]
}

/// One message in fragments, with a pong between each two.
fn fragmented(opcode: u8, payload: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut rest = payload;
    let mut code = opcode;
    for cut in cuts {
        let (front, back) = rest.split_at((*cut).min(rest.len()));
        stream.extend(masked(code, false, front));
        rest = back;
        code = 0;
    }
    stream.extend(masked(code, true, rest));
    stream
}

proptest! {
    /// GW-2: the same messages result from any fragmentation and any splitting of the bytes.
    #[test]
    fn messages_survive_any_segmentation(
        messages in prop::collection::vec(any_message(), 1..10),
        pieces in prop::collection::vec(1_usize..300, 1..6),
    ) {
        let (streams, expected): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        prop_assert_eq!(receive_in_pieces(Role::Server, &streams.concat(), &pieces), expected.concat());
    }

    /// Arbitrary input never panics and never leaves more than a control frame pending; the result is independent of
    /// the splitting.
    #[test]
    fn any_bytes_are_judged_alike_however_they_are_cut(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        pieces in prop::collection::vec(1_usize..50, 1..6),
        role in prop_oneof![Just(Role::Server), Just(Role::Client)],
    ) {
        prop_assert_eq!(receive_in_pieces(role, &bytes, &pieces), receive_in_pieces(role, &bytes, &[400]));
    }

    #[test]
    fn headers_come_back(payload_bytes in prop_oneof![0_usize..300, 65_000_usize..70_000, any::<u32>().prop_map(|size| size as usize)], key in any::<Option<[u8; 4]>>()) {
        let encoded = encode_header(Opcode::Binary, payload_bytes, key);
        let bytes = encoded.as_slice();
        let (header, consumed) = Header::parse(bytes, false).expect("valid").expect("whole");
        prop_assert_eq!(consumed, bytes.len());
        prop_assert_eq!((header.payload_bytes, header.key, header.is_final), (payload_bytes as u64, key, true));
        for end in 0..bytes.len() {
            prop_assert_eq!(Header::parse(&bytes[..end], false), Ok(None));
        }
    }
}
