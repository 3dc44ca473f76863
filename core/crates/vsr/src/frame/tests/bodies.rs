//! Tests of the checks between bodies and commands.

use alloc::vec;
use alloc::vec::Vec;

use headrace_buffer::Slice;
use proptest::prelude::*;

use super::samples::{INTAKE, chain, frames, origin};
use crate::frame::area::*;
use crate::frame::body::{headers, multi};
use crate::frame::{
    Command, Frame, Header, NO_REPLICA, Operation, PrepareFlags, PrepareFrame, PrepareHeader,
    Reject,
};

/// Encode a frame with this area and body, and decode it.
fn outcome(area: impl Into<Area>, body: &[u8]) -> Result<(), Reject> {
    let area = area.into();
    let group = u64::from(!area.command().is_of_node());
    let frame = Frame::seal(origin(group), area, Slice::from_vec(body.to_vec()));
    INTAKE.check(&frame.encode()).map(drop)
}

fn suffix(count: u64) -> Vec<PrepareHeader> {
    chain(count)
        .iter()
        .rev()
        .map(|frame| frame.header)
        .collect()
}

#[test]
fn there_is_a_valid_frame_of_every_command() {
    let frames = frames();
    assert_eq!(frames.len(), Command::ALL.len());
    for (frame, command) in frames.iter().zip(Command::ALL) {
        assert_eq!(frame.header.command(), command);
        assert_eq!(INTAKE.check(&frame.encode()), Ok(frame.header));
    }
}

#[test]
fn only_nodes_speak_for_no_group() {
    for frame in frames() {
        let group = 1 - frame.header.group;
        let wrong = Frame::seal(origin(group), frame.header.area, frame.body.clone());
        assert_eq!(INTAKE.check(&wrong.encode()), Err(Reject::Group));
        let mut without_replica = frame.header;
        without_replica.replica = NO_REPLICA;
        let without_replica = Frame {
            header: without_replica.with_checksum(),
            body: frame.body,
        };
        assert_eq!(
            INTAKE.check(&without_replica.encode()),
            Err(Reject::Replica)
        );
    }
}

#[test]
fn commands_without_a_body_have_none() {
    for frame in frames().iter().filter(|frame| frame.body.is_empty()) {
        let result = outcome(frame.header.area, b"x");
        assert_eq!(result, Err(Reject::Body), "{:?}", frame.header.command());
    }
}

#[test]
fn requests_are_numbered_within_their_session() {
    let request = |client, session, request, operation| {
        let area = Request {
            client,
            session,
            request,
            operation,
            ..Request::default()
        };
        outcome(area, b"")
    };
    assert_eq!(request(1, 0, 0, Operation::REGISTER), Ok(()));
    assert_eq!(request(1, 1, 1, Operation::NOOP), Ok(()));
    for refused in [
        request(0, 1, 1, Operation::NOOP),
        request(1, 1, 0, Operation::REGISTER),
        request(1, 0, 1, Operation::NOOP),
        request(1, 1, 0, Operation::NOOP),
        request(1, 1, 1, Operation::ADVANCE_TIME),
        request(1, 1, 1, Operation::ROOT),
    ] {
        assert_eq!(refused, Err(Reject::Area));
    }
}

#[test]
fn prepares_have_a_place_above_their_commit() {
    let valid = Prepare {
        op: 2,
        commit: 1,
        operation: Operation::NOOP,
        ..Prepare::default()
    };
    assert_eq!(outcome(valid, b""), Ok(()));
    for refused in [
        Prepare { commit: 2, ..valid },
        Prepare {
            op: 0,
            commit: 0,
            ..valid
        },
        Prepare {
            operation: Operation::ROOT,
            ..valid
        },
        Prepare {
            operation: Operation::BLANK,
            ..valid
        },
    ] {
        assert_eq!(outcome(refused, b""), Err(Reject::Area));
    }
}

#[test]
fn ctl_1_a_suffix_descends_from_the_head_without_a_gap() {
    let headers = suffix(5);
    let area = DoViewChange {
        op: 5,
        header_count: 5,
        ..DoViewChange::default()
    };
    let start = StartView {
        op: 5,
        header_count: 5,
        ..StartView::default()
    };
    let encode = |headers: &[PrepareHeader]| headers::encode(headers);
    assert_eq!(outcome(area, &encode(&headers)), Ok(()));

    let mut blank = headers.clone();
    blank[2] = PrepareHeader::blank(3);
    assert_eq!(outcome(area, &encode(&blank)), Ok(()));
    assert_eq!(
        outcome(start, &encode(&blank)),
        Err(Reject::Body),
        "a decided log is known"
    );

    let mut gap = headers.clone();
    gap[4] = PrepareHeader::blank(0);
    let mut other = headers.clone();
    other[1].group = 2;
    other[1] = other[1].with_checksum();
    let mut almost_blank = headers.clone();
    almost_blank[1].area.operation = Operation::BLANK;
    almost_blank[1] = almost_blank[1].with_checksum();
    for refused in [gap, other, almost_blank, headers[..4].to_vec()] {
        assert_eq!(outcome(area, &encode(&refused)), Err(Reject::Body));
        assert_eq!(outcome(start, &encode(&refused)), Err(Reject::Body));
    }
    let wrong_head = DoViewChange { op: 6, ..area };
    assert_eq!(outcome(wrong_head, &encode(&headers)), Err(Reject::Body));
}

#[test]
fn a_suffix_is_never_empty_and_never_too_long() {
    let root = headers::encode(&[PrepareHeader::root(super::samples::CLUSTER, 1)]);
    let at_root = StartView {
        header_count: 1,
        ..StartView::default()
    };
    assert_eq!(outcome(at_root, &root), Ok(()));
    let empty = StartView::default();
    assert_eq!(outcome(empty, b""), Err(Reject::Area));
    let long = DoViewChange {
        op: 34,
        header_count: 34,
        ..DoViewChange::default()
    };
    assert_eq!(
        outcome(long, &headers::encode(&suffix(34))),
        Err(Reject::Area)
    );
    let full = DoViewChange {
        op: 33,
        header_count: 33,
        ..DoViewChange::default()
    };
    assert_eq!(outcome(full, &headers::encode(&suffix(33))), Ok(()));
}

#[test]
fn ctl_1_nacks_are_only_about_headers_that_are_there() {
    let body = headers::encode(&suffix(3));
    let area = DoViewChange {
        op: 3,
        header_count: 3,
        ..DoViewChange::default()
    };
    let nack = |nack_bitset| {
        outcome(
            DoViewChange {
                nack_bitset,
                ..area
            },
            &body,
        )
    };
    assert_eq!(nack(0b111), Ok(()));
    assert_eq!(nack(0b1000), Err(Reject::Area));
    let present = DoViewChange {
        present_bitset: 1 << 127,
        ..area
    };
    assert_eq!(outcome(present, &body), Err(Reject::Area));
}

#[test]
fn ranges_and_chunks_have_limits() {
    let range = |op_min, op_max| {
        outcome(
            RequestHeaders {
                op_min,
                op_max,
                ..RequestHeaders::default()
            },
            b"",
        )
    };
    assert_eq!(range(1, 128), Ok(()));
    assert_eq!(range(1, 129), Err(Reject::Area));
    assert_eq!(range(2, 1), Err(Reject::Area));
    let chunk = |len| {
        outcome(
            RequestChunk {
                len,
                ..RequestChunk::default()
            },
            b"",
        )
    };
    assert_eq!(chunk(0), Err(Reject::Area));
    assert_eq!(chunk(CHUNK_BYTES_MAX + 1), Err(Reject::Area));
    assert_eq!(
        outcome(
            Chunk {
                len: 2,
                ..Chunk::default()
            },
            b"abc"
        ),
        Err(Reject::Body)
    );
}

#[test]
fn a_body_joins_only_its_own_header() {
    let frame = chain(3).pop().expect("three");
    let joined = PrepareFrame::join(frame.header, frame.body.clone());
    assert_eq!(joined.as_ref(), Ok(&frame));
    let other = Slice::from_vec(vec![2; frame.body.len()]);
    assert_eq!(
        PrepareFrame::join(frame.header, other),
        Err(Reject::BodyChecksum)
    );
    let short = frame.body.slice(1..);
    assert_eq!(PrepareFrame::join(frame.header, short), Err(Reject::Size));
}

fn sub_request() -> impl Strategy<Value = multi::SubRequest> {
    (
        any::<(u128, u64, u64, u32, u8)>(),
        prop::collection::vec(any::<u8>(), 0..50),
    )
        .prop_map(
            |((client, session, request, count, ack_level), body)| multi::SubRequest {
                client,
                session,
                request,
                count,
                ack_level,
                body: Slice::from_vec(body),
            },
        )
}

proptest! {
    #[test]
    fn several_requests_come_back_as_they_were(requests in prop::collection::vec(sub_request(), 1..20)) {
        let body = Slice::from_vec(multi::encode(&requests));
        prop_assert_eq!(multi::decode(&body), Ok(requests));
        // A truncated or extended body is not a valid table.
        prop_assert_eq!(multi::decode(&body.slice(..body.len() - 1)), Err(Reject::Body));
        let mut longer = body.to_vec();
        longer.push(0);
        prop_assert_eq!(multi::decode(&Slice::from_vec(longer)), Err(Reject::Body));
    }

    #[test]
    fn any_table_is_read_or_refused(count in 0..300u32, rest: Vec<u8>) {
        let mut body = count.to_le_bytes().to_vec();
        body.extend_from_slice(&rest);
        if let Ok(requests) = multi::decode(&Slice::from_vec(body.clone())) {
            prop_assert_eq!(multi::encode(&requests), body);
        }
    }

    #[test]
    fn any_body_is_taken_or_refused(at in 0..Command::ALL.len(), body: Vec<u8>, multi: bool) {
        let mut area = frames()[at].header.area;
        if let Area::Prepare(prepare) = &mut area {
            prepare.flags = if multi { PrepareFlags::MULTI } else { PrepareFlags::NONE };
        }
        let group = u64::from(!frames()[at].header.command().is_of_node());
        let header = Header::seal(origin(group), area, &body);
        let frame = Frame { header, body: Slice::from_vec(body) };
        if let Ok(taken) = INTAKE.check(&frame.encode()) {
            prop_assert_eq!(taken, header);
        }
    }
}
