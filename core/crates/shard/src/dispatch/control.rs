//! Replies of the control plane, and the conversion of their records in both directions.

use headrace_catalog::{Credential, Permissions};
use headrace_model::{Timestamp, UserId};
use headrace_proto::{
    catalog::v1 as catalog,
    control::v1::{self as control, reply::Body, request::Operation},
    metadata::v1 as proto_metadata,
};
use headrace_wire::response::{
    GroupHeader, Identity, PartitionInfo, RawAccessToken, StreamHeader, TopicHeader, UserDetails,
    UserHeader,
};

use super::{topics::compression, transactions, users::user_status};
use crate::sessions::connection::Session;

/// Return whether a session changes the password of its own user.
pub(crate) fn is_own_password(session: &Session, operation: &Operation) -> bool {
    match operation {
        Operation::ChangePassword(change) => {
            (session.user()).is_some_and(|user| user.0 == change.user_id)
        }
        _ => false,
    }
}

/// Return whether the operation may make the client a group member, so that closing the connection must be reported.
pub(crate) fn is_join(operation: &Operation) -> bool {
    use proto_metadata::command::Operation as Proposed;
    matches!(
        operation,
        Operation::Command(proto_metadata::Command {
            operation: Some(Proposed::JoinConsumerGroup(_)),
            ..
        })
    )
}

/// Build the credential of a session of `user`.
pub(crate) fn credential(user: UserId, grounds: &control::Credential) -> Credential {
    Credential {
        user,
        password_version: grounds.password_version,
        token: grounds.token_incarnation,
        expires_at: (grounds.expires_at_micros != 0)
            .then_some(Timestamp(grounds.expires_at_micros)),
    }
}

pub(crate) fn encode_body(body: &Body, out: &mut Vec<u8>) {
    match body {
        Body::Stream(stream) => StreamHeader {
            id: stream.id,
            created_at: stream.created_at_micros,
            topics_count: 0,
            size_bytes: 0,
            messages_count: 0,
            name: &stream.name,
        }
        .encode(out),
        Body::Topic(topic) => encode_new_topic(topic, out),
        Body::User(user) => UserDetails {
            user: UserHeader {
                id: user.id,
                created_at: user.created_at_micros,
                status: user_status(u8::try_from(user.status).unwrap_or_default()),
                username: &user.username,
            },
            permissions: (user.permissions.as_ref())
                .map(|record| (&Permissions::from(record)).into()),
        }
        .encode(out),
        Body::UserId(user_id) => Identity { user_id: *user_id }.encode(out),
        Body::AccessToken(token) => RawAccessToken { token }.encode(out),
        Body::Diagnostics(archive) => out.extend_from_slice(archive),
        Body::ConsumerGroup(group) => GroupHeader {
            id: group.id,
            partitions_count: group.partitions_count,
            members_count: 0,
            name: &group.name,
        }
        .encode(out),
        Body::TransactionResult(result) => transactions::encode_result(result, out),
        Body::Transaction(transaction) => transactions::encode_transaction(transaction, out),
        Body::PinResult(result) => transactions::encode_pin(result, out),
        // Encoded in `control_replied`.
        Body::HostStatistics(_) => {}
    }
}

/// Encode a topic that was just created and is empty.
fn encode_new_topic(topic: &catalog::Topic, out: &mut Vec<u8>) {
    TopicHeader {
        id: topic.id,
        created_at: topic.created_at_micros,
        partitions_count: u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX),
        message_expiry: topic.message_expiry_micros,
        compression: compression(u8::try_from(topic.compression).unwrap_or_default()),
        max_topic_size: topic.max_size_bytes,
        replication_factor: u8::try_from(topic.replication_factor).unwrap_or(u8::MAX),
        size_bytes: 0,
        messages_count: 0,
        name: &topic.name,
    }
    .encode(out);
    for partition in &topic.partitions {
        PartitionInfo {
            id: partition.id,
            created_at: partition.created_at_micros,
            segments_count: 0,
            current_offset: 0,
            size_bytes: 0,
            messages_count: 0,
        }
        .encode(out);
    }
}
