//! Quotas of users and topics: read from the catalog, changed through the control plane.

use headrace_catalog::Action;
use headrace_model::UserId;
use headrace_proto::{
    catalog::v1 as catalog,
    metadata::v1::{self as metadata, command::Operation},
};
use headrace_wire::{
    Quota, Status,
    command::{GetUser, SetTopicQuota, SetUserQuota, TopicPath},
    response::{QuotaRecord, QuotaSubject},
};

use super::{Context, Handled, Outcome};

fn quota(quota: headrace_catalog::Quota) -> Quota {
    Quota {
        sent_bytes_per_second: quota.sent_bytes_per_second,
        read_bytes_per_second: quota.read_bytes_per_second,
        held_bytes: quota.held_bytes,
        connections: quota.connections,
    }
}

/// The state machine removes a quota without limits, and checks the others.
fn record(quota: Quota) -> catalog::Quota {
    catalog::Quota {
        sent_bytes_per_second: quota.sent_bytes_per_second,
        read_bytes_per_second: quota.read_bytes_per_second,
        held_bytes: quota.held_bytes,
        connections: quota.connections,
    }
}

impl Context<'_> {
    /// List the quotas of users and topics that the caller may read, so that everyone sees its own.
    pub(super) fn get_quotas(&self) -> Outcome {
        Outcome::payload(|out| {
            for user in self.catalog.users() {
                let is_shown = user.id == self.user || self.allow(Action::ReadUsers).is_ok();
                if user.quota.is_limited() && is_shown {
                    QuotaRecord {
                        subject: QuotaSubject::User {
                            id: user.id.0,
                            name: &user.username,
                        },
                        quota: quota(user.quota),
                    }
                    .encode(out);
                }
            }
            for stream in self.catalog.streams() {
                for topic in stream.topics().filter(|topic| topic.quota.is_limited()) {
                    if self.allow(Action::ReadTopic(stream.id, topic.id)).is_ok() {
                        QuotaRecord {
                            subject: QuotaSubject::Topic {
                                stream_id: stream.id.0,
                                topic_id: topic.id.0,
                                stream: &stream.name,
                                topic: &topic.name,
                            },
                            quota: quota(topic.quota),
                        }
                        .encode(out);
                    }
                }
            }
        })
    }

    pub(super) fn get_user_quota(&self, request: &GetUser<'_>) -> Handled {
        let found = self.find_user(request.user);
        self.allow_unless_self(found, Action::ReadUsers)?;
        Ok(found.map_or(Outcome::Missing, |user| {
            Outcome::payload(|out| quota(user.quota).encode(out))
        }))
    }

    /// A user's own quota is for others to change, also if the user manages users; root has none.
    pub(super) fn set_user_quota(&self, request: &SetUserQuota<'_>) -> Handled {
        self.allow(Action::ManageUsers)?;
        let user = self.user(request.user)?;
        self.allow_changing(user)?;
        if user.id == self.user && user.id != UserId::ROOT {
            return Err(Status::UNAUTHORIZED);
        }
        Ok(
            self.propose(Operation::SetUserQuota(metadata::SetUserQuota {
                user_id: user.id.0,
                quota: Some(record(request.quota)),
            })),
        )
    }

    pub(super) fn get_topic_quota(&self, request: &TopicPath<'_>) -> Handled {
        let found = self.topic_if(request.stream, request.topic, Action::ReadTopic)?;
        Ok(found.map_or(Outcome::Missing, |topic| {
            Outcome::payload(|out| quota(topic.quota).encode(out))
        }))
    }

    pub(super) fn set_topic_quota(&self, request: &SetTopicQuota<'_>) -> Handled {
        let topic = self.manageable_topic(&TopicPath {
            stream: request.stream,
            topic: request.topic,
        })?;
        let command = metadata::SetTopicQuota {
            stream_id: topic.stream_id.0,
            topic_id: topic.id.0,
            quota: Some(record(request.quota)),
        };
        Ok(self.propose_on(topic, Operation::SetTopicQuota(command)))
    }
}
