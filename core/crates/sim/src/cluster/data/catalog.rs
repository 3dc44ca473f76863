//! The catalog of a run: one topic for each durability level in use.

use headrace_model::{Durability, Namespace, PartitionId, StreamId, TopicId};
use headrace_proto::catalog::v1::{self as records, delta::Change};

use crate::options::DataOptions;

/// Partitions with their levels, in the order of their numbers in a run.
pub(super) fn partitions(options: &DataOptions) -> Vec<(Namespace, Durability)> {
    let topics = (0..).zip(options.levels());
    topics
        .flat_map(|(topic, level)| {
            (0..options.partitions).map(move |id| {
                let partition = PartitionId(id.into());
                let namespace = Namespace::new(StreamId(0), TopicId(topic), partition);
                (namespace.expect("small numbers"), level)
            })
        })
        .collect()
}

/// The first version of the catalog, which has everything.
pub(super) fn catalog(options: &DataOptions) -> records::Update {
    let mut changes = vec![
        Change::UserPut(records::User {
            id: 0,
            username: "root".into(),
            created_at_micros: 1,
            status: records::UserStatus::Active.into(),
            password_version: 1,
            ..Default::default()
        }),
        Change::StreamPut(records::Stream {
            id: 0,
            name: "s".into(),
            created_at_micros: 2,
            incarnation: 2,
        }),
    ];
    changes.extend((0..).zip(options.levels()).map(|(id, level)| {
        Change::TopicPut(records::Topic {
            stream_id: 0,
            id,
            name: level.name().into(),
            created_at_micros: 3,
            incarnation: 3,
            compression: records::CompressionAlgorithm::None.into(),
            message_expiry_micros: u64::MAX,
            max_size_bytes: u64::MAX,
            replication_factor: 1,
            durability: level.code(),
            partitions: (0..u32::from(options.partitions))
                .map(|id| records::Partition {
                    id,
                    created_at_micros: 3,
                    incarnation: 3,
                })
                .collect(),
            ..Default::default()
        })
    }));
    let deltas = changes.into_iter().map(|change| records::Delta {
        change: Some(change),
    });
    records::Update {
        version: 1,
        deltas: deltas.collect(),
    }
}
