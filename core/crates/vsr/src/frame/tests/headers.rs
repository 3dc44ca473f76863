//! Tests of headers: layout, uniqueness of the encoding, detection of damage.

use alloc::vec::Vec;

use headrace_buffer::Slice;
use proptest::prelude::*;

use super::samples::{CLUSTER, INTAKE, frames, origin, random_header};
use crate::frame::area::{Area, Prepare, fields};
use crate::frame::field::Field;
use crate::frame::{
    Command, HEADER_BYTES, Header, Operation, PROTOCOL, PrepareHeader, Reject, checksum_body,
    checksum_header,
};

#[test]
fn commands_have_their_numbers() {
    for (command, code) in Command::ALL.into_iter().zip((1..=23).chain([25])) {
        assert_eq!(command.code(), code);
        assert_eq!(Command::from_code(code), Some(command));
    }
    for unknown_or_reserved in [0, 24, 26] {
        assert_eq!(Command::from_code(unknown_or_reserved), None);
    }
}

#[test]
fn operations_have_their_numbers() {
    for code in 0..=u8::MAX {
        let known = matches!(code, 0..=4 | 6..=7 | 16..=63);
        assert_eq!(Operation::from_code(code).is_some(), known);
    }
    assert!(Operation::METADATA_FIRST.is_metadata() && !Operation::ADVANCE_TIME.is_metadata());
    assert!(!Operation::ROOT.is_requestable() && !Operation::ADVANCE_TIME.is_requestable());
}

#[test]
fn fields_lie_in_the_area_aligned_and_apart() {
    for command in Command::ALL {
        let mut end = 128;
        for &(offset, len) in fields(command) {
            assert!(offset >= end, "{command:?}: fields ascend without overlap");
            assert_eq!(offset % len, 0, "{command:?}: {offset} is aligned");
            end = offset + len;
        }
        assert!(end <= HEADER_BYTES);
    }
}

/// Encoding of one header, field by field as in the format. A change here changes the format on disk.
#[test]
fn the_header_of_a_prepare_lies_as_documented() {
    let area = Prepare {
        parent: 1,
        request_checksum: 2,
        client: 3,
        checkpoint_id: 4,
        op: 5,
        commit: 4,
        timestamp_ns: 7,
        request: 8,
        session: 9,
        base_offset: 10,
        user_id: 11,
        count: 12,
        operation: Operation::NOOP,
        flags: crate::frame::PrepareFlags::MULTI,
    };
    let header = Header::seal(origin(1), area, b"body");
    let mut expected = [0; HEADER_BYTES];
    checksum_body(b"body").put(&mut expected[16..]);
    CLUSTER.put(&mut expected[32..]);
    260u32.put(&mut expected[48..]);
    7u32.put(&mut expected[52..]);
    0x0001_0203u32.put(&mut expected[56..]);
    expected[60] = 6;
    expected[61] = 2;
    PROTOCOL.put(&mut expected[62..]);
    1u64.put(&mut expected[64..]);
    1u32.put(&mut expected[72..]);
    2u32.put(&mut expected[76..]);
    4u64.put(&mut expected[80..]);
    for (offset, value) in [(128, 1u128), (144, 2), (160, 3), (176, 4)] {
        value.put(&mut expected[offset..]);
    }
    for (offset, value) in [
        (192, 5u64),
        (200, 4),
        (208, 7),
        (216, 8),
        (224, 9),
        (232, 10),
    ] {
        value.put(&mut expected[offset..]);
    }
    11u32.put(&mut expected[240..]);
    12u32.put(&mut expected[244..]);
    expected[248] = 4;
    expected[249] = 2;
    checksum_header(&expected).put(&mut expected[0..]);
    assert_eq!(header.encode(), expected);
}

/// Checksums that other programs and older releases compute as well.
#[test]
fn checksums_are_what_they_were() {
    assert_eq!(
        checksum_body(b""),
        twox_hash::XxHash3_128::oneshot_with_seed(0x5653_5242_4459_0001, b"")
    );
    assert_ne!(checksum_body(b""), 0);
    assert_ne!(crate::frame::digest(b""), checksum_body(b""));
    assert_eq!(
        PrepareHeader::root(CLUSTER, 1),
        PrepareHeader::root(CLUSTER, 1)
    );
    assert_ne!(
        PrepareHeader::root(CLUSTER, 1).checksum,
        PrepareHeader::root(CLUSTER, 2).checksum
    );
}

#[test]
fn blank_headers_are_zero_but_for_their_place() {
    let bytes = PrepareHeader::blank(300).encode();
    let set: Vec<_> = (16..HEADER_BYTES).filter(|&at| bytes[at] != 0).collect();
    assert_eq!(set, [60, 192, 193]);
    assert!(PrepareHeader::decode(&bytes).expect("valid").is_blank());
    assert_eq!(
        INTAKE.check(&bytes),
        Err(Reject::Cluster),
        "blanks are no frames"
    );
}

#[test]
fn reasons_come_in_the_documented_order() {
    let bytes = frames()[4].encode();
    let reject = |change: &dyn Fn(&mut Vec<u8>), seal: bool| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        if seal {
            let head: [u8; HEADER_BYTES] = bytes[..HEADER_BYTES].try_into().expect("256 bytes");
            checksum_header(&head).put(&mut bytes[0..]);
        }
        INTAKE.check(&bytes)
    };
    // Every later check would fail as well.
    let all = |bytes: &mut Vec<u8>| {
        bytes[32] ^= 1;
        bytes[48] ^= 1;
        bytes[60] = 99;
        bytes[62] ^= 2;
        bytes[100] = 1;
    };
    assert_eq!(
        reject(&|bytes| bytes.truncate(255), false),
        Err(Reject::TooShort)
    );
    assert_eq!(reject(&all, false), Err(Reject::HeaderChecksum));
    assert_eq!(reject(&all, true), Err(Reject::Cluster));
    let all = |bytes: &mut Vec<u8>| (all(bytes), bytes[32] ^= 1).1;
    assert_eq!(reject(&all, true), Err(Reject::Protocol));
    let all = |bytes: &mut Vec<u8>| (all(bytes), bytes[62] ^= 2).1;
    assert_eq!(reject(&all, true), Err(Reject::Size));
    let all = |bytes: &mut Vec<u8>| (all(bytes), bytes[48] ^= 1, bytes[260] ^= 1).1;
    assert_eq!(reject(&all, true), Err(Reject::BodyChecksum));
    let all = |bytes: &mut Vec<u8>| (all(bytes), bytes[260] ^= 1).1;
    assert_eq!(reject(&all, true), Err(Reject::Command));
    let all = |bytes: &mut Vec<u8>| (all(bytes), bytes[60] = 5).1;
    assert_eq!(reject(&all, true), Err(Reject::Reserved));
    let names: Vec<_> = Reject::ALL.iter().map(|reason| reason.name()).collect();
    assert!(
        names
            .iter()
            .all(|name| names.iter().filter(|&other| other == name).count() == 1)
    );
}

#[test]
fn sizes_have_bounds() {
    let mut header = frames()[4].header;
    for size in [0, 255, INTAKE.message_size_max + 1, u32::MAX] {
        header.size = size;
        assert_eq!(
            INTAKE.frame_size(&header.with_checksum().encode()),
            Err(Reject::Size)
        );
    }
    header.size = INTAKE.message_size_max;
    assert!(INTAKE.frame_size(&header.with_checksum().encode()).is_ok());
}

proptest! {
    #[test]
    fn every_header_has_one_encoding(seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        for command in Command::ALL {
            let bytes = random_header(command, &mut random);
            let header: Header = Header::decode(&bytes).expect("made valid");
            prop_assert_eq!(header.command(), command);
            prop_assert_eq!(header.encode(), bytes);
            if let Some(prepare) = header.as_prepare() {
                prop_assert_eq!(prepare.encode(), bytes);
                prop_assert_eq!(prepare.any(), header);
            }
        }
    }

    #[test]
    fn bytes_that_no_field_covers_are_zero(seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        for command in Command::ALL {
            let mut bytes = random_header(command, &mut random);
            let covered = |at: usize| fields(command).iter().any(|&(from, len)| (from..from + len).contains(&at));
            let free: Vec<_> = (88..HEADER_BYTES).filter(|&at| !covered(at)).collect();
            bytes[free[random.usize(..free.len())]] = random.u8(1..);
            checksum_header(&bytes).put(&mut bytes[0..]);
            prop_assert_eq!(Header::<Area>::decode(&bytes), Err(Reject::Reserved));
        }
    }

    #[test]
    fn ctl_1_a_damaged_frame_is_never_taken(at in 0..Command::ALL.len(), byte: prop::sample::Index, bit in 0..8u8) {
        let frame = &frames()[at];
        let mut bytes = frame.encode();
        prop_assert_eq!(&INTAKE.decode(&Slice::from_vec(bytes.clone())), &Ok(frame.clone()));
        bytes[byte.index(frame.size_bytes())] ^= 1 << bit;
        prop_assert!(INTAKE.decode(&Slice::from_vec(bytes)).is_err());
    }

    #[test]
    fn a_frame_without_its_end_is_never_taken(at in 0..Command::ALL.len(), len: prop::sample::Index) {
        let bytes = frames()[at].encode();
        prop_assert!(INTAKE.check(&bytes[..len.index(bytes.len())]).is_err());
    }

    #[test]
    fn any_bytes_are_taken_or_refused(bytes: Vec<u8>) {
        let _ = INTAKE.check(&bytes);
        let _ = INTAKE.decode(&Slice::from_vec(bytes));
    }
}
