//! Replies of the control plane, and the conversion of their records in both directions.

use std::sync::Arc;

use headrace_catalog::{Credential, Permissions};
use headrace_model::{Timestamp, UserId};
use headrace_proto::{
    catalog::v1 as catalog,
    control::v1::{self as control, Reply, reply::Body, request::Operation},
    metadata::v1 as proto_metadata,
};
use headrace_wire::{
    Status,
    response::{
        GroupHeader, Identity, PartitionInfo, RawAccessToken, StreamHeader, TopicHeader,
        UserDetails, UserHeader,
    },
};

use super::{topics::compression, transactions, users::user_status};
use crate::{
    Shard,
    api::{Effect, Origin},
    sessions::connection::{Login, Session, payload_response, status_response},
};

/// Return whether a session changes the password of its own user.
pub(super) fn is_own_password(session: &Session, operation: &Operation) -> bool {
    match operation {
        Operation::ChangePassword(change) => {
            (session.user()).is_some_and(|user| user.0 == change.user_id)
        }
        _ => false,
    }
}

/// Return whether the operation may make the client a group member, so that closing the connection must be reported.
pub(super) fn is_join(operation: &Operation) -> bool {
    use proto_metadata::command::Operation as Proposed;
    matches!(
        operation,
        Operation::Command(proto_metadata::Command {
            operation: Some(Proposed::JoinConsumerGroup(_)),
            ..
        })
    )
}

impl Shard {
    /// Deliver a reply to its connection; a login updates the session first.
    pub(crate) fn control_replied(
        &mut self,
        origin: Origin,
        reply: Reply,
        effects: &mut Vec<Effect>,
    ) {
        if self.has_caught_up(origin.connection) {
            return;
        }
        let host_statistics = match &reply.body {
            Some(Body::HostStatistics(host)) => Some(self.stats_response(host)),
            _ => None,
        };
        let clients = self.sessions.clients().clone();
        let (catalog, now) = (Arc::clone(self.catalog.load()), self.wall());
        let places = match &reply.body {
            Some(Body::UserId(user)) => Some(self.places(&catalog, UserId(*user))),
            _ => None,
        };
        let Some(connection) = self.sessions.get_mut(origin.connection) else {
            return;
        };
        let session = &mut connection.session;
        let changed_password = core::mem::take(&mut session.changes_password);
        let mut status = Status(reply.status);
        let grounds = reply.credential.unwrap_or_default();
        if let (true, Some(Body::UserId(user)), Some(places)) =
            (status.is_ok(), &reply.body, places)
        {
            let login = Login::new(credential(UserId(*user), &grounds));
            // The credential may have been revoked since the control plane checked it.
            if !login.holds(&catalog, now) {
                status = Status::INVALID_CREDENTIALS;
            } else if !clients.log_in(session.client, UserId(*user), places) {
                status = Status::TOO_MANY_CONNECTIONS;
            } else {
                session.login = Some(login);
                session.ticket = None;
                session.route = None;
            }
        } else if let Some(login) = (session.login.as_ref())
            .filter(|login| login.credential().password_version != 0)
            .filter(|_| changed_password && status.is_ok())
        {
            // The session that changed the password remains valid: it proved the old password, and knows the new one.
            session.login = Some(Login::new(Credential {
                password_version: grounds.password_version,
                ..login.credential()
            }));
        }
        let expires_at = session.expires_at();
        let response = if !status.is_ok() {
            status_response(status)
        } else if let Some(response) = host_statistics {
            response
        } else {
            match reply.body {
                None | Some(Body::HostStatistics(_)) => status_response(Status::OK),
                Some(body) => payload_response(|out| encode_body(&body, out)),
            }
        };
        connection.pipeline.answer_one(origin.sequence, response);
        self.sessions.touch(origin.connection);
        self.sessions.note_login_expiry(expires_at);
        if changed_password {
            // The review skipped this session while the change was in progress.
            self.review_session(origin.connection, effects);
        }
    }
}

/// Build the credential of a session of `user`.
fn credential(user: UserId, grounds: &control::Credential) -> Credential {
    Credential {
        user,
        password_version: grounds.password_version,
        token: grounds.token_incarnation,
        expires_at: (grounds.expires_at_micros != 0)
            .then_some(Timestamp(grounds.expires_at_micros)),
    }
}

fn encode_body(body: &Body, out: &mut Vec<u8>) {
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
