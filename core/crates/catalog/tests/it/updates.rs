//! Applying updates one by one yields the same catalog as the final snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use headrace_catalog::{Catalog, CatalogWriter, Quota};
use headrace_model::{PartitionId, PartitionStatistics, StreamId, TopicId, UserId};
use headrace_proto::catalog::v1::{self, delta::Change};
use proptest::prelude::*;

/// A request of a client. Numbers are taken modulo the existing objects, so that most requests have an effect.
#[derive(Debug, Clone)]
enum Request {
    PutStream { id: u32, rename: bool },
    DeleteStream { id: u32, announce_topics: bool },
    PutTopic { stream: u32, id: u32, rename: bool },
    DeleteTopic { stream: u32, id: u32 },
    Repartition { stream: u32, id: u32, count: u32 },
    Purge { stream: u32, id: u32 },
    PutUser { id: u32, rename: bool },
    DeleteUser { id: u32 },
    PutToken { user: u32, name: u8 },
    DeleteToken { user: u32, name: u8 },
}

fn request() -> impl Strategy<Value = Request> {
    let (stream, topic, user) = (0_u32..4, 0_u32..4, 0_u32..4);
    prop_oneof![
        (stream.clone(), any::<bool>()).prop_map(|(id, rename)| Request::PutStream { id, rename }),
        (stream.clone(), any::<bool>()).prop_map(|(id, announce_topics)| Request::DeleteStream {
            id,
            announce_topics
        }),
        (stream.clone(), topic.clone(), any::<bool>())
            .prop_map(|(stream, id, rename)| Request::PutTopic { stream, id, rename }),
        (stream.clone(), topic.clone())
            .prop_map(|(stream, id)| Request::DeleteTopic { stream, id }),
        (stream.clone(), topic.clone(), 0_u32..6)
            .prop_map(|(stream, id, count)| Request::Repartition { stream, id, count }),
        (stream, topic).prop_map(|(stream, id)| Request::Purge { stream, id }),
        (user.clone(), any::<bool>()).prop_map(|(id, rename)| Request::PutUser { id, rename }),
        user.clone().prop_map(|id| Request::DeleteUser { id }),
        (user.clone(), 0_u8..3).prop_map(|(user, name)| Request::PutToken { user, name }),
        (user, 0_u8..3).prop_map(|(user, name)| Request::DeleteToken { user, name }),
    ]
}

/// Minimal metadata service: flat tables and the deltas of each request.
#[derive(Debug, Default)]
struct Reference {
    version: u64,
    incarnations: u64,
    streams: BTreeMap<u32, v1::Stream>,
    topics: BTreeMap<(u32, u32), v1::Topic>,
    users: BTreeMap<u32, v1::User>,
    tokens: BTreeMap<(u32, String), v1::AccessToken>,
}

impl Reference {
    fn next_incarnation(&mut self) -> u64 {
        self.incarnations += 1;
        self.incarnations
    }

    fn apply(&mut self, request: &Request) -> v1::Update {
        self.version += 1;
        v1::Update {
            version: self.version,
            deltas: self
                .changes(request)
                .into_iter()
                .map(|change| v1::Delta {
                    change: Some(change),
                })
                .collect(),
        }
    }

    fn changes(&mut self, request: &Request) -> Vec<Change> {
        match *request {
            Request::PutStream { id, rename } => {
                let fresh = self.next_incarnation();
                let suffix = if rename { self.version } else { 0 };
                let record = self.streams.entry(id).or_insert_with(|| v1::Stream {
                    id,
                    incarnation: fresh,
                    ..Default::default()
                });
                record.name = format!("stream {id}.{suffix}");
                vec![Change::StreamPut(record.clone())]
            }
            Request::DeleteStream {
                id,
                announce_topics,
            } => {
                let gone: Vec<_> = self
                    .topics
                    .keys()
                    .filter(|key| key.0 == id)
                    .copied()
                    .collect();
                self.streams.remove(&id);
                self.topics.retain(|key, _| key.0 != id);
                let mut changes = vec![Change::StreamDeleted(id)];
                if announce_topics {
                    changes.extend(gone.into_iter().map(|(stream_id, topic_id)| {
                        Change::TopicDeleted(v1::TopicKey {
                            stream_id,
                            topic_id,
                        })
                    }));
                }
                changes
            }
            Request::PutTopic { stream, id, rename } => {
                if !self.streams.contains_key(&stream) {
                    return Vec::new();
                }
                let fresh = self.next_incarnation();
                let suffix = if rename { self.version } else { 0 };
                let record = self
                    .topics
                    .entry((stream, id))
                    .or_insert_with(|| v1::Topic {
                        stream_id: stream,
                        id,
                        incarnation: fresh,
                        compression: v1::CompressionAlgorithm::None.into(),
                        replication_factor: 1,
                        ..Default::default()
                    });
                // Two streams may use the same name.
                record.name = format!("topic {id}.{suffix}");
                record.durability = i32::try_from(self.version % 4).expect("small");
                record.quota = rename.then_some(topic_quota(self.version));
                vec![Change::TopicPut(record.clone())]
            }
            Request::DeleteTopic { stream, id } => {
                self.topics.remove(&(stream, id));
                vec![Change::TopicDeleted(v1::TopicKey {
                    stream_id: stream,
                    topic_id: id,
                })]
            }
            Request::Repartition { stream, id, count } => {
                let fresh = self.next_incarnation();
                let Some(record) = self.topics.get_mut(&(stream, id)) else {
                    return Vec::new();
                };
                record.partitions.truncate(count as usize);
                for id in u32::try_from(record.partitions.len()).expect("few")..count {
                    record.partitions.push(v1::Partition {
                        id,
                        created_at_micros: 5,
                        incarnation: fresh,
                    });
                }
                vec![Change::TopicPut(record.clone())]
            }
            Request::Purge { stream, id } => {
                let Some(record) = self.topics.get_mut(&(stream, id)) else {
                    return Vec::new();
                };
                record.purge_epoch += 1;
                vec![Change::TopicPut(record.clone())]
            }
            ref about_users => self.user_changes(about_users),
        }
    }

    fn user_changes(&mut self, request: &Request) -> Vec<Change> {
        match *request {
            Request::PutUser { id, rename } => {
                let suffix = if rename { self.version } else { 0 };
                let record = v1::User {
                    id,
                    username: format!("user {id}.{suffix}"),
                    status: i32::try_from(self.version % 2 + 1).expect("small"),
                    permissions: rename.then(|| v1::Permissions {
                        global: Some(v1::GlobalPermissions {
                            read_users: true,
                            ..Default::default()
                        }),
                        streams: Vec::new(),
                    }),
                    quota: rename.then_some(user_quota(self.version)),
                    ..Default::default()
                };
                self.users.insert(id, record.clone());
                vec![Change::UserPut(record)]
            }
            Request::DeleteUser { id } => {
                self.users.remove(&id);
                self.tokens.retain(|key, _| key.0 != id);
                vec![Change::UserDeleted(id)]
            }
            Request::PutToken { user, name } => {
                if !self.users.contains_key(&user) {
                    return Vec::new();
                }
                let record = v1::AccessToken {
                    user_id: user,
                    name: name.to_string(),
                    expires_at_micros: self.version % 3,
                    ..Default::default()
                };
                self.tokens
                    .insert((user, record.name.clone()), record.clone());
                vec![Change::AccessTokenPut(record)]
            }
            Request::DeleteToken { user, name } => {
                self.tokens.remove(&(user, name.to_string()));
                vec![Change::AccessTokenDeleted(v1::AccessTokenKey {
                    user_id: user,
                    name: name.to_string(),
                })]
            }
            _ => Vec::new(),
        }
    }

    fn snapshot(&self) -> v1::Snapshot {
        v1::Snapshot {
            version: self.version,
            streams: self.streams.values().cloned().collect(),
            topics: self.topics.values().cloned().collect(),
            users: self.users.values().cloned().collect(),
            access_tokens: self.tokens.values().cloned().collect(),
            ..Default::default()
        }
    }
}

/// A quota with another value in each field, so that no two can be exchanged unseen.
fn topic_quota(version: u64) -> v1::Quota {
    v1::Quota {
        sent_bytes_per_second: version + 1_000,
        read_bytes_per_second: version + 2_000,
        held_bytes: version + 3_000,
        connections: 0,
    }
}

fn user_quota(version: u64) -> v1::Quota {
    v1::Quota {
        held_bytes: 0,
        connections: 7,
        ..topic_quota(version)
    }
}

fn quota_of(record: Option<v1::Quota>) -> Quota {
    let record = record.unwrap_or_default();
    Quota {
        sent_bytes_per_second: record.sent_bytes_per_second,
        read_bytes_per_second: record.read_bytes_per_second,
        held_bytes: record.held_bytes,
        connections: record.connections,
    }
}

/// Check that all look-ups agree with the tables.
fn check_look_ups(catalog: &Catalog, reference: &Reference) {
    for record in reference.streams.values() {
        let by_id = catalog.stream_by_id(StreamId(record.id)).expect("exists");
        let by_name = catalog.stream_by_name(&record.name).expect("exists");
        assert!(Arc::ptr_eq(by_id, by_name));
        assert!(
            catalog
                .stream_by_name(&record.name.to_uppercase())
                .is_none()
        );
    }
    for record in reference.topics.values() {
        let stream = catalog
            .stream_by_id(StreamId(record.stream_id))
            .expect("exists");
        let by_id = stream.topic_by_id(TopicId(record.id)).expect("exists");
        assert!(Arc::ptr_eq(
            by_id,
            stream.topic_by_name(&record.name).expect("exists")
        ));
        assert_eq!(by_id.quota, quota_of(record.quota));
    }
    for record in reference.users.values() {
        let by_id = catalog.user_by_id(UserId(record.id)).expect("exists");
        assert!(Arc::ptr_eq(
            by_id,
            catalog.user_by_name(&record.username).expect("exists")
        ));
        assert_eq!(by_id.quota, quota_of(record.quota));
        assert_eq!(
            catalog.tokens_of(by_id.id).count(),
            reference
                .tokens
                .keys()
                .filter(|key| key.0 == record.id)
                .count()
        );
    }
    // Neither the previous name of a renamed object nor a deleted object may be found.
    for id in 0..4 {
        let first = format!("stream {id}.0");
        let expected = reference
            .streams
            .values()
            .any(|record| record.name == first);
        assert_eq!(catalog.stream_by_name(&first).is_some(), expected);
        let first = format!("user {id}.0");
        let expected = reference
            .users
            .values()
            .any(|record| record.username == first);
        assert_eq!(catalog.user_by_name(&first).is_some(), expected);
        for stream in catalog.streams() {
            let first = format!("topic {id}.0");
            let expected = reference
                .topics
                .values()
                .any(|record| record.stream_id == stream.id.0 && record.name == first);
            assert_eq!(stream.topic_by_name(&first).is_some(), expected);
        }
    }
}

/// Statistics by incarnation, id and purge epoch.
type StatisticsOf = BTreeMap<(u64, PartitionId, u64), Arc<PartitionStatistics>>;

fn statistics(catalog: &Catalog) -> StatisticsOf {
    let mut all = BTreeMap::new();
    for (topic, partition) in catalog.partitions() {
        let key = (partition.incarnation, partition.id, topic.purge_epoch);
        let known = all.insert(key, Arc::clone(&partition.statistics));
        assert!(known.is_none(), "{}", topic.name);
    }
    all
}

proptest! {
    /// CTL-9, SHARD-7: the projection is a function of the snapshot, whichever way it was reached.
    #[test]
    fn updates_equal_the_final_snapshot(
        requests in prop::collection::vec(request(), 0..60),
        cut in 0_usize..60,
    ) {
        let mut reference = Reference::default();
        let mut writer = CatalogWriter::new(Catalog::default());
        let mut reader = writer.reader();
        let mut known = BTreeMap::new();
        for (step, request) in requests.iter().enumerate() {
            let update = reference.apply(request);
            if step == cut {
                // A subscriber that reconnects gets a snapshot in place of the update.
                writer.publish_snapshot(&reference.snapshot()).expect("is valid");
            } else {
                writer.publish_update(&update).expect("is valid");
            }
            let catalog = reader.load();
            prop_assert_eq!(catalog.to_snapshot(), reference.snapshot());
            check_look_ups(catalog, &reference);

            // SHARD-7: the statistics that a shard writes stay the same object unless the partition is purged.
            let now = statistics(catalog);
            for (key, statistics) in &now {
                if let Some(before) = known.get(key) {
                    prop_assert!(Arc::ptr_eq(before, statistics));
                }
            }
            known = now;
        }
        let rebuilt = Catalog::from_snapshot(&reference.snapshot()).expect("is valid");
        prop_assert_eq!(rebuilt.to_snapshot(), writer.current().to_snapshot());
        check_look_ups(&rebuilt, &reference);
    }
}
