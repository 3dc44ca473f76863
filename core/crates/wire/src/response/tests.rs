//! Round trips of the response to every command, and refusal of damaged payloads.

use alloc::vec;
use alloc::vec::Vec;

use proptest::collection;
use proptest::prelude::*;

use super::*;
use crate::samples::values;
use crate::{CommandCode, Identifier, Partitioning, Status, UserStatus};

fn encoded(response: &Response<'_>) -> Vec<u8> {
    let mut payload = Vec::new();
    response.encode(&mut payload);
    payload
}

#[test]
fn nothing_found_is_an_empty_payload() {
    for code in [
        CommandCode::GetClient,
        CommandCode::GetUser,
        CommandCode::GetConsumerOffset,
        CommandCode::GetStream,
        CommandCode::GetTopic,
        CommandCode::GetConsumerGroup,
        CommandCode::SendMessages,
        CommandCode::Ping,
    ] {
        assert_eq!(Response::decode(code, &[]), Ok(Response::Empty));
    }
    assert_eq!(
        Response::decode(CommandCode::GetStreams, &[]),
        Ok(Response::Streams(Vec::new()))
    );
    for code in [
        CommandCode::GetMe,
        CommandCode::GetStats,
        CommandCode::CreateStream,
        CommandCode::PollMessages,
        CommandCode::LoginUser,
    ] {
        assert_eq!(Response::decode(code, &[]), Err(Malformed::Truncated));
    }
    assert_eq!(
        Response::decode(CommandCode::FlushUnsavedBuffer, &[0]),
        Err(Malformed::TrailingBytes)
    );
}

#[test]
fn counts_without_items_allocate_nothing() {
    let mut payload = Vec::new();
    StreamHeader {
        id: 0,
        created_at: 0,
        topics_count: u32::MAX,
        size_bytes: 0,
        messages_count: 0,
        name: "s",
    }
    .encode(&mut payload);
    assert_eq!(
        StreamDetails::decode(&payload),
        Err(Malformed::CountMismatch)
    );
    let member = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    assert_eq!(GroupMember::decode(&member), Err(Malformed::Truncated));
    assert_eq!(Membership::decode(&member), Err(Malformed::Truncated));
    assert_eq!(
        Membership::decode(&member[..8]),
        Err(Malformed::CountMismatch)
    );
}

#[test]
fn a_count_that_disagrees_with_the_items_is_refused() {
    let header = GroupHeader {
        id: 1,
        partitions_count: 2,
        members_count: 2,
        name: "g",
    };
    let member = GroupMember {
        id: 0,
        partitions: vec![0, 1],
    };
    let with_members = |count| {
        let mut payload = Vec::new();
        header.encode(&mut payload);
        encode_list(&vec![member.clone(); count], &mut payload);
        GroupDetails::decode(&payload).map(|details| details.members.len())
    };
    assert_eq!(with_members(1), Err(Malformed::CountMismatch));
    assert_eq!(with_members(2), Ok(2));
    assert_eq!(with_members(3), Err(Malformed::TrailingBytes));
}

#[test]
fn encoding_takes_the_count_from_the_items() {
    let details = GroupDetails {
        group: GroupHeader {
            id: 1,
            partitions_count: 2,
            members_count: 99,
            name: "g",
        },
        members: Vec::new(),
    };
    let mut payload = Vec::new();
    details.encode(&mut payload);
    assert_eq!(
        GroupDetails::decode(&payload).map(|details| details.group.members_count),
        Ok(0)
    );
}

#[test]
fn unknown_codes_are_refused() {
    let mut user = Vec::new();
    UserHeader {
        id: 1,
        created_at: 2,
        status: UserStatus::Active,
        username: "abc",
    }
    .encode(&mut user);
    user[12] = 3;
    assert_eq!(UserHeader::decode(&user), Err(Malformed::UnknownCode(3)));
    user[12] = 1;
    for (block, error) in [
        (&[2, 0, 0, 0][..], Malformed::UnknownCode(2)),
        (&[0, 0, 1, 0], Malformed::ReservedNotZero),
        (&[0, 0, 0], Malformed::Truncated),
        (&[1, 1, 0, 0, 0, 0], Malformed::InvalidLength),
    ] {
        let payload = [&user[..], block].concat();
        assert_eq!(UserDetails::decode(&payload), Err(error), "{block:?}");
    }
}

#[test]
fn a_polled_batch_is_checked_on_demand() {
    let mut builder = crate::batch::BatchBuilder::new();
    builder.push(1, 2, b"a", b"").expect("fits");
    builder.push(1, 2, b"b", b"").expect("fits");
    let zero = Identifier::Numeric(0);
    let mut message_bytes = builder
        .request(zero, zero, Partitioning::Balanced)
        .messages
        .to_vec();
    let check = |messages_count, message_bytes: &[u8]| {
        Polled {
            header: PolledHeader {
                messages_count,
                ..PolledHeader::default()
            },
            message_bytes,
        }
        .check()
    };
    assert_eq!(check(2, &message_bytes), Ok(()));
    assert_eq!(check(1, &message_bytes), Err(Malformed::CountMismatch));
    assert_eq!(check(2, &message_bytes[..70]), Err(Malformed::Truncated));
    message_bytes[63] = 1;
    assert_eq!(check(2, &message_bytes), Err(Malformed::ReservedNotZero));
}

#[test]
fn the_head_of_a_poll_counts_what_follows() {
    let header = PolledHeader {
        partition_id: 7,
        current_offset: 8,
        messages_count: 2,
    };
    let head = header.frame_head(100).expect("fits");
    let mut whole = Vec::new();
    encode_frame(&mut whole, |payload| {
        header.encode(payload);
        payload.extend_from_slice(&[0; 100]);
    });
    assert_eq!(head, whole[..24]);
    assert_eq!(whole.len(), 124);
    assert_eq!(header.frame_head(u64::from(u32::MAX) - 15), None);
    assert_eq!(header.frame_head(u64::MAX), None);
    assert!(header.frame_head(u64::from(u32::MAX) - 16).is_some());
}

#[test]
fn frames_are_appended() {
    let mut out = vec![9];
    encode_frame(&mut out, |payload| Identity { user_id: 5 }.encode(payload));
    assert_eq!(out, [9, 0, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(
        ResponseHeader::parse(out[1..].first_chunk().expect("a header")).status,
        Status::OK
    );
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(values in values()) {
        for &code in CommandCode::ALL {
            let response = values.response(code);
            let mut payload = encoded(&response);
            prop_assert_eq!(Response::decode(code, &payload), Ok(response.clone()));
            // Q18: official clients do not read a payload of one byte.
            if !matches!(code, CommandCode::GetSnapshot) {
                prop_assert!(payload.len() != 1);
            }

            // A response that holds exactly one object is refused if bytes follow it.
            let opaque_end = matches!(response, Response::Snapshot(_) | Response::Polled(_) | Response::Read(_));
            let is_list = matches!(
                response,
                Response::Clients(_) | Response::Users(_) | Response::Tokens(_) | Response::Streams(_)
                    | Response::Topics(_) | Response::Groups(_) | Response::Watched(_) | Response::Described(_)
                    | Response::Quotas(_)
            );
            if !opaque_end && !is_list {
                payload.push(0);
                prop_assert!(Response::decode(code, &payload).is_err(), "{:?}", code);
                payload.pop();
                for end in 1..payload.len() {
                    prop_assert!(Response::decode(code, &payload[..end]).is_err(), "{:?}", code);
                }
            }
        }
    }

    #[test]
    fn damage_never_panics_and_what_decodes_is_stable(
        values in values(),
        place: prop::sample::Index,
        byte: u8,
    ) {
        for &code in CommandCode::ALL {
            let mut payload = encoded(&values.response(code));
            if payload.is_empty() {
                continue;
            }
            let place = place.index(payload.len());
            payload[place] = byte;
            for end in [payload.len(), place] {
                if let Ok(response) = Response::decode(code, &payload[..end]) {
                    let again = encoded(&response);
                    // Compares bytes instead of values, because statistics may contain NaN.
                    let decoded = Response::decode(code, &again);
                    prop_assert_eq!(decoded.map(|response| encoded(&response)), Ok(again));
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(payload in collection::vec(any::<u8>(), 0..300)) {
        for &code in CommandCode::ALL {
            let response = Response::decode(code, &payload);
            if let Ok(Response::Polled(polled)) = response {
                let _ = polled.check();
            }
        }
    }
}
