//! The handshake of two replicas. Input: role (one byte), the size of a piece (one byte), data.
//!
//! Data of an unauthenticated peer is used unchanged. Data of a peer is the contents of its messages, which the target
//! signs, as otherwise only the first message would be reached.
#![no_main]

use headrace_replica::handshake::{
    Handshake, Identity, Keys, MESSAGE_BYTES_MAX, NONCE_BYTES, Progress,
};
use headrace_vsr::{
    frame::Release,
    trust::{MemberClaim, PeerMemory},
};
use libfuzzer_sys::fuzz_target;
use ring::hmac;

const HELLO: u8 = 1;
const CHALLENGE: u8 = 2;
const PROOF: u8 = 3;
const WELCOME: u8 = 4;
const FRAMING_BYTES: usize = 3;
const MAC_BYTES: usize = 32;
const CLAIM_BYTES: usize = 35;

const SECRET: &str = "what both of them know, and no other process";
const CLUSTER: &str = "test";

const US: u8 = 0;
const THEM: u8 = 1;
const REPLICAS: u8 = 3;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[speaker, piece], said)) = bytes.split_first_chunk() else {
        return;
    };
    let us = identity();
    match speaker % 4 {
        0 => unauthenticated(&us, accept, said, piece),
        1 => unauthenticated(&us, || dial(&us).0, said, piece),
        2 => peer_calls(&us, said),
        _ => peer_answers(&us, said, piece),
    }
});

fn identity() -> Identity {
    Identity {
        claim: MemberClaim {
            is_proven: true,
            has_history: true,
            is_normal: true,
            view: 7,
            ..MemberClaim::default()
        },
        cluster: 7,
        cluster_name: CLUSTER.to_owned(),
        replica: US,
        replicas: REPLICAS,
        given_up: Vec::new(),
        release: Release::new(1, 4, 0),
        in_force: Release::new(1, 3, 0),
        memory: PeerMemory::default(),
        keys: Keys::derive(SECRET, "", CLUSTER),
    }
}

fn accept() -> Handshake {
    Handshake::accept([2; NONCE_BYTES])
}

fn dial(us: &Identity) -> (Handshake, Vec<u8>) {
    let mut hello = Vec::new();
    let handshake = Handshake::dial(us, THEM, [1; NONCE_BYTES], &mut hello);
    (handshake, hello)
}

/// A peer without the secret is refused, and cannot make the replica buffer more than one message.
fn unauthenticated(us: &Identity, begin: impl Fn() -> Handshake, said: &[u8], piece: u8) {
    let mut at_once = said.to_vec();
    let mut answer = Vec::new();
    let verdict = begin().advance(us, &mut at_once, &mut answer);
    assert!(!matches!(verdict, Progress::Done { .. }));

    let mut handshake = begin();
    let (mut input, mut same_answer) = (Vec::new(), Vec::new());
    let mut same_verdict = Progress::Wait;
    for piece in said.chunks(usize::from(piece) + 1) {
        input.extend_from_slice(piece);
        same_verdict = handshake.advance(us, &mut input, &mut same_answer);
        if same_verdict != Progress::Wait {
            break;
        }
        assert!(input.len() < FRAMING_BYTES + MESSAGE_BYTES_MAX);
    }
    assert_eq!(verdict, same_verdict, "however it was cut");
    assert_eq!(answer, same_answer);
    assert!(answer.len() <= 2 * (FRAMING_BYTES + MESSAGE_BYTES_MAX));
}

/// A peer with the secret calls with arbitrary contents in its opening message.
fn peer_calls(us: &Identity, hello: &[u8]) {
    let Some(mut input) = message(HELLO, hello) else {
        return;
    };
    let (mut handshake, mut answer) = (accept(), Vec::new());
    if handshake.advance(us, &mut input, &mut answer) != Progress::Wait {
        return;
    }
    let challenge = &answer[FRAMING_BYTES..answer.len() - MAC_BYTES];
    let transcript = [hello, challenge].concat();
    let mut proof = message(PROOF, sign(b"dial", &transcript).as_ref()).expect("short");
    match handshake.advance(us, &mut proof, &mut Vec::new()) {
        Progress::Done { peer, .. } => assert!(peer != US && peer < REPLICAS),
        other => panic!("{other:?}"),
    }
}

/// A peer with the secret answers: the first `length` bytes are its challenge, the others its welcome.
fn peer_answers(us: &Identity, said: &[u8], length: u8) {
    let (challenge, welcome) = said.split_at(said.len().min(usize::from(length)));
    let (mut handshake, hello) = dial(us);
    let transcript = [&hello[FRAMING_BYTES..], challenge].concat();
    let mac = sign(b"accept", &transcript);
    let mut input = message(CHALLENGE, &[challenge, mac.as_ref()].concat()).expect("short");
    let mut answer = Vec::new();
    if handshake.advance(us, &mut input, &mut answer) != Progress::Wait {
        return;
    }
    assert_eq!(
        Some(answer),
        message(PROOF, sign(b"dial", &transcript).as_ref())
    );
    let mac = sign(b"welcome", &[&transcript, welcome].concat());
    let Some(mut input) = message(WELCOME, &[welcome, mac.as_ref()].concat()) else {
        return;
    };
    let verdict = handshake.advance(us, &mut input, &mut Vec::new());
    let is_whole = (CLAIM_BYTES..=MESSAGE_BYTES_MAX - MAC_BYTES).contains(&welcome.len());
    assert_eq!(matches!(verdict, Progress::Done { .. }), is_whole);
}

/// Sign as the protocol's documentation specifies.
fn sign(label: &[u8], transcript: &[u8]) -> hmac::Tag {
    let key = |bytes: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, bytes);
    let purpose = [b"headrace cluster replicas v1\0", CLUSTER.as_bytes()].concat();
    let derived = hmac::sign(&key(SECRET.as_bytes()), &purpose);
    hmac::sign(&key(derived.as_ref()), &[label, transcript].concat())
}

fn message(kind: u8, payload: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(payload.len()).ok()?;
    Some([&length.to_le_bytes()[..], &[kind], payload].concat())
}
