//! Sample frames of every command.

use alloc::vec;
use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::frame::area::*;
use crate::frame::body::{headers, manifest, multi};
use crate::frame::field::Field;
use crate::frame::{
    Command, Frame, FrameFlags, HEADER_BYTES, Intake, Operation, Origin, PrepareFlags,
    PrepareFrame, PrepareHeader, Release,
};

pub(super) const CLUSTER: u128 = 0xc1a5;

pub(super) const INTAKE: Intake = Intake {
    cluster: CLUSTER,
    message_size_max: 1 << 20,
};

pub(super) fn origin(group: u64) -> Origin {
    Origin {
        cluster: CLUSTER,
        group,
        view: 7,
        epoch: 1,
        replica: 2,
        release: Release::new(1, 2, 3),
        flags: FrameFlags::WANT_ACK,
        incarnation: 4,
    }
}

/// Encode a header of this command with random fields and a valid checksum, not checked against a body.
pub(super) fn random_header(command: Command, random: &mut fastrand::Rng) -> [u8; HEADER_BYTES] {
    loop {
        let mut bytes = [0; HEADER_BYTES];
        random.fill(&mut bytes[16..88]);
        command.code().put(&mut bytes[60..]);
        (random.u32(0..2) << 1).put(&mut bytes[76..]);
        for &(offset, len) in fields(command) {
            random.fill(&mut bytes[offset..offset + len]);
        }
        crate::frame::checksum_header(&bytes).put(&mut bytes[0..]);
        // Some random reasons and operations are invalid: repeat until all are valid.
        if crate::frame::Header::<Area>::decode(&bytes).is_ok() {
            return bytes;
        }
    }
}

/// Build a chain of prepares from op 1 on.
pub(super) fn chain(count: u64) -> Vec<PrepareFrame> {
    let mut parent = PrepareHeader::root(CLUSTER, 1);
    let link = |op: u64| {
        let area = Prepare {
            parent: parent.checksum,
            op,
            commit: op - 1,
            timestamp_ns: op,
            operation: Operation::NOOP,
            ..Prepare::default()
        };
        let frame = Frame::seal(origin(1), area, Slice::from_vec(op.to_le_bytes().to_vec()));
        parent = frame.header;
        frame
    };
    (1..=count).map(link).collect()
}

fn frame(area: impl Into<Area>, body: Vec<u8>) -> Frame {
    let area = area.into();
    let group = u64::from(!area.command().is_of_node());
    Frame::seal(origin(group), area, Slice::from_vec(body))
}

/// One valid frame of each command, in the order of their numbers.
pub(super) fn frames() -> Vec<Frame> {
    let mut frames = [with_clients(), in_the_log(), about_views(), for_repair()].concat();
    frames.sort_by_key(|frame| frame.header.command());
    frames
}

fn with_clients() -> Vec<Frame> {
    let ping = PingClient {
        client: 1,
        ..PingClient::default()
    };
    let request = Request {
        client: 1,
        session: 2,
        request: 3,
        operation: Operation::METADATA_LAST,
        ..Request::default()
    };
    vec![
        frame(ping, vec![]),
        frame(PongClient::default(), vec![]),
        frame(request, b"command".to_vec()),
        frame(Reply::default(), b"result".to_vec()),
        frame(Eviction::default(), vec![]),
        frame(Redirect::default(), vec![]),
    ]
}

fn in_the_log() -> Vec<Frame> {
    let request = multi::SubRequest {
        client: 9,
        session: 8,
        request: 7,
        count: 1,
        ack_level: 2,
        body: Slice::from_static(b"payload"),
    };
    let several = Prepare {
        op: 6,
        commit: 5,
        operation: Operation::METADATA_FIRST,
        flags: PrepareFlags::MULTI,
        ..Prepare::default()
    };
    vec![
        frame(Ping::default(), vec![]),
        frame(Pong::default(), vec![]),
        frame(several, multi::encode(&[request.clone(), request])),
        frame(PrepareOk::default(), vec![]),
        frame(Commit::default(), vec![]),
        frame(CommitOk::default(), vec![]),
    ]
}

fn about_views() -> Vec<Frame> {
    let suffix: Vec<_> = chain(5).iter().rev().map(|frame| frame.header).collect();
    let summary = DoViewChange {
        op: 5,
        header_count: 5,
        log_view: 7,
        nack_bitset: 0b1_1111,
        ..DoViewChange::default()
    };
    let start = StartView {
        op: 5,
        commit_max: 1,
        header_count: 5,
        ..StartView::default()
    };
    vec![
        frame(StartViewChange::default(), vec![]),
        frame(summary, headers::encode(&suffix)),
        frame(start, headers::encode(&suffix)),
        frame(RequestStartView::default(), vec![]),
    ]
}

fn for_repair() -> Vec<Frame> {
    let suffix: Vec<_> = chain(5).iter().rev().map(|frame| frame.header).collect();
    let artifact = manifest::Artifact {
        kind: 0,
        flags: 1,
        id: 2,
        len: 3,
        digest: 4,
        frontier: 5,
    };
    let request_headers = RequestHeaders {
        op_min: 1,
        op_max: 128,
        ..RequestHeaders::default()
    };
    let two_headers = Headers {
        count: 2,
        ..Headers::default()
    };
    let request_prepare = RequestPrepare {
        op: 3,
        op_max: 3,
        ..RequestPrepare::default()
    };
    let state = StateManifest {
        checkpoint_op: 5,
        artifacts: 1,
        ..StateManifest::default()
    };
    let request_chunk = RequestChunk {
        len: CHUNK_BYTES_MAX,
        ..RequestChunk::default()
    };
    let chunk = Chunk {
        len: 3,
        ..Chunk::default()
    };
    vec![
        frame(request_headers, vec![]),
        frame(two_headers, headers::encode(&suffix[1..3])),
        frame(request_prepare, vec![]),
        frame(NoPrepare::default(), vec![]),
        frame(RequestState::default(), vec![]),
        frame(state, manifest::encode(&suffix[0], &[artifact])),
        frame(request_chunk, vec![]),
        frame(chunk, vec![1, 2, 3]),
    ]
}
