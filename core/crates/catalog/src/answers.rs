//! Conversion of records to responses of the binary protocol.
//!
//! Counts and sizes are current: they come from the statistics that the shards write.

use headrace_wire::response::{
    PartitionInfo, StreamDetails, StreamHeader, TokenInfo, TopicDetails, TopicHeader, UserDetails,
    UserHeader,
};

use crate::{AccessToken, Partition, Stream, Topic, User};

impl Stream {
    /// Entry in a list of streams.
    pub fn header(&self) -> StreamHeader<'_> {
        let totals = self.totals();
        StreamHeader {
            id: self.id.0,
            created_at: self.created_at.0,
            topics_count: u32::try_from(self.topics_count())
                .expect("identifiers of topics fit 12 bits"),
            size_bytes: totals.size_bytes,
            messages_count: totals.messages_count,
            name: &self.name,
        }
    }

    /// Stream with its topics.
    pub fn details(&self) -> StreamDetails<'_> {
        StreamDetails {
            stream: self.header(),
            topics: self.topics().map(|topic| topic.header()).collect(),
        }
    }
}

impl Topic {
    /// Entry in a list of topics.
    pub fn header(&self) -> TopicHeader<'_> {
        let totals = self.totals();
        TopicHeader {
            id: self.id.0,
            created_at: self.created_at.0,
            partitions_count: totals.partitions_count,
            message_expiry: self.message_expiry_for_clients(),
            compression: self.compression,
            max_topic_size: self.max_size_for_clients(),
            replication_factor: self.replication_factor,
            size_bytes: totals.size_bytes,
            messages_count: totals.messages_count,
            name: &self.name,
        }
    }

    /// Topic with its partitions.
    pub fn details(&self) -> TopicDetails<'_> {
        TopicDetails {
            topic: self.header(),
            partitions: self.partitions.iter().map(Partition::info).collect(),
        }
    }
}

impl Partition {
    /// Entry in the details of a topic.
    pub fn info(&self) -> PartitionInfo {
        PartitionInfo {
            id: self.id.0,
            created_at: self.created_at.0,
            segments_count: self.statistics.segments_count(),
            current_offset: self.statistics.current_offset(),
            size_bytes: self.statistics.size_bytes(),
            messages_count: self.statistics.messages_count(),
        }
    }
}

impl User {
    /// Entry in a list of users.
    pub fn header(&self) -> UserHeader<'_> {
        UserHeader {
            id: self.id.0,
            created_at: self.created_at.0,
            status: self.status,
            username: &self.username,
        }
    }

    /// User with permissions.
    pub fn details(&self) -> UserDetails<'_> {
        UserDetails {
            user: self.header(),
            permissions: self.permissions.as_ref().map(Into::into),
        }
    }
}

impl AccessToken {
    /// Entry in a list of tokens.
    pub fn info(&self) -> TokenInfo<'_> {
        TokenInfo {
            name: &self.name,
            expiry_at: self.expires_at.map_or(0, |expires_at| expires_at.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use headrace_model::{StreamId, TopicId, UserId};
    use headrace_proto::catalog::v1;
    use headrace_wire::{CompressionAlgorithm, Identifier, UserStatus};

    use super::*;
    use crate::Catalog;

    fn catalog() -> Catalog {
        Catalog::from_snapshot(&v1::Snapshot {
            version: 1,
            streams: vec![v1::Stream {
                id: 3,
                name: "s".into(),
                created_at_micros: 10,
                incarnation: 1,
            }],
            topics: vec![v1::Topic {
                stream_id: 3,
                id: 4,
                name: "t".into(),
                created_at_micros: 11,
                incarnation: 2,
                compression: v1::CompressionAlgorithm::Gzip.into(),
                message_expiry_micros: u64::MAX,
                max_size_bytes: 7,
                replication_factor: 1,
                partitions: (0..2)
                    .map(|id| v1::Partition {
                        id,
                        created_at_micros: 12,
                        incarnation: 3,
                    })
                    .collect(),
                ..Default::default()
            }],
            users: vec![v1::User {
                id: 5,
                username: "ann".into(),
                created_at_micros: 13,
                status: v1::UserStatus::Inactive.into(),
                permissions: Some(v1::Permissions {
                    global: Some(v1::GlobalPermissions {
                        read_topics: true,
                        ..Default::default()
                    }),
                    streams: vec![v1::StreamPermissions {
                        stream_id: 3,
                        poll_messages: true,
                        topics: vec![v1::TopicPermissions {
                            topic_id: 4,
                            send_messages: true,
                            ..Default::default()
                        }],
                        ..Default::default()
                    }],
                }),
                ..Default::default()
            }],
            access_tokens: vec![v1::AccessToken {
                user_id: 5,
                name: "ci".into(),
                ..Default::default()
            }],
            ..Default::default()
        })
        .expect("is valid")
    }

    #[test]
    fn sizes_are_those_of_the_moment() {
        let catalog = catalog();
        let stream = catalog.stream_by_id(StreamId(3)).expect("exists");
        let topic = stream.topic_by_id(TopicId(4)).expect("exists");
        for partition in &topic.partitions {
            partition.statistics.set_messages_count(2);
            partition.statistics.set_size_bytes(200);
            partition.statistics.set_segments_count(1);
            partition.statistics.set_current_offset(1);
        }
        let details = stream.details();
        assert_eq!(
            details.stream,
            StreamHeader {
                id: 3,
                created_at: 10,
                topics_count: 1,
                size_bytes: 400,
                messages_count: 4,
                name: "s"
            }
        );
        assert_eq!(details.topics, [topic.header()]);
        assert_eq!(
            topic.details().topic,
            TopicHeader {
                id: 4,
                created_at: 11,
                partitions_count: 2,
                message_expiry: u64::MAX,
                compression: CompressionAlgorithm::Gzip,
                max_topic_size: 7,
                replication_factor: 1,
                size_bytes: 400,
                messages_count: 4,
                name: "t"
            }
        );
        assert_eq!(
            topic.details().partitions[1],
            PartitionInfo {
                id: 1,
                created_at: 12,
                segments_count: 1,
                current_offset: 1,
                size_bytes: 200,
                messages_count: 2
            }
        );
    }

    #[test]
    fn users_keep_their_permissions_through_every_form() {
        let catalog = catalog();
        let user = catalog.user_by_id(UserId(5)).expect("exists");
        let details = user.details();
        assert_eq!(details.user.status, UserStatus::Inactive);
        let travelled = details.permissions.expect("has a record");
        let back = crate::Permissions::from(&travelled);
        assert_eq!(Some(&back), user.permissions.as_ref());
        assert_eq!(
            Some(back.to_record()),
            catalog.to_snapshot().users[0].permissions
        );
        let tokens: Vec<_> = user.tokens().map(AccessToken::info).collect();
        assert_eq!(
            tokens,
            [TokenInfo {
                name: "ci",
                expiry_at: 0
            }]
        );
    }

    /// GW-1: a name of digits is still a name, not an id.
    #[test]
    fn identifiers_are_numbers_or_names() {
        let catalog = catalog();
        let stream = catalog.stream(&Identifier::Numeric(3)).expect("exists");
        assert!(catalog.stream(&Identifier::Named("s")).is_some());
        assert!(catalog.stream(&Identifier::Named("3")).is_none());
        assert!(catalog.stream(&Identifier::Named("S")).is_none());
        assert!(stream.topic(&Identifier::Numeric(4)).is_some());
        assert!(stream.topic(&Identifier::Named("t")).is_some());
        assert!(stream.topic(&Identifier::Named("4")).is_none());
        assert!(catalog.user(&Identifier::Numeric(5)).is_some());
        assert!(catalog.user(&Identifier::Named("ann")).is_some());
        assert!(catalog.user(&Identifier::Named("bob")).is_none());
    }
}
