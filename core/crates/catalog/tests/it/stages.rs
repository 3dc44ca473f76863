//! Projection of committed stages that are not yet appended, and of aborted ones.

use std::sync::Arc;

use headrace_catalog::{ApplyError, Catalog};
use headrace_model::{Namespace, PartitionId, StageId, StreamId, Timestamp, TopicId};
use headrace_proto::catalog::v1::{self, delta::Change};

fn topic(id: u32, incarnation: u64) -> Change {
    Change::TopicPut(v1::Topic {
        id,
        name: format!("t{id}"),
        incarnation,
        compression: v1::CompressionAlgorithm::None.into(),
        replication_factor: 1,
        partitions: (0..2)
            .map(|id| v1::Partition {
                id,
                incarnation,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    })
}

fn stage(expires_at: u64) -> StageId {
    StageId::new(Timestamp(expires_at), 7)
}

fn publication(topic_id: u32, partition_id: u32, number: u64, stages: &[u64]) -> Change {
    Change::PublicationPut(v1::PendingPublication {
        topic_id,
        partition_id,
        partition_incarnation: 2,
        number,
        stage_ids: ids(stages),
        ..Default::default()
    })
}

fn aborted(topic_id: u32, partition_id: u32, number: u64, stages: &[u64]) -> Change {
    Change::AbortedStagesPut(v1::AbortedStages {
        topic_id,
        partition_id,
        partition_incarnation: 2,
        number,
        stage_ids: ids(stages),
        ..Default::default()
    })
}

fn ids(stages: &[u64]) -> Vec<Vec<u8>> {
    let ids = stages.iter().map(|expires_at| stage(*expires_at));
    ids.map(|id| id.to_bytes().to_vec()).collect()
}

fn key(topic_id: u32, partition_id: u32, number: u64) -> v1::PublicationKey {
    v1::PublicationKey {
        topic_id,
        partition_id,
        number,
        ..Default::default()
    }
}

fn applied(catalog: &Catalog, changes: Vec<Change>) -> Result<Catalog, ApplyError> {
    let deltas = changes.into_iter().map(|change| v1::Delta {
        change: Some(change),
    });
    catalog.apply(&v1::Update {
        version: catalog.version() + 1,
        deltas: deltas.collect(),
    })
}

fn staged() -> Catalog {
    let changes = vec![
        Change::StreamPut(v1::Stream {
            name: "s".into(),
            incarnation: 1,
            ..Default::default()
        }),
        topic(0, 2),
        topic(1, 2),
        publication(0, 0, 5, &[30, 10]),
        publication(0, 0, 9, &[40]),
        publication(0, 1, 9, &[50]),
        publication(1, 0, 9, &[60]),
        aborted(0, 0, 6, &[70]),
        aborted(0, 0, 7, &[80]),
    ];
    applied(&Catalog::default(), changes).expect("is valid")
}

fn place(topic: u32, partition: u32) -> Namespace {
    Namespace::new(StreamId(0), TopicId(topic), PartitionId(partition)).expect("fits")
}

fn pending(catalog: &Catalog, topic: u32, partition: u32) -> Vec<u64> {
    let publications = catalog.publications_of(place(topic, partition));
    publications.iter().map(|stages| stages.number).collect()
}

fn given_up(catalog: &Catalog, topic: u32, partition: u32) -> Vec<u64> {
    let aborted = catalog.aborted_stages_of(place(topic, partition));
    aborted.iter().map(|stages| stages.number).collect()
}

#[test]
fn publications_stand_in_the_order_in_which_they_are_appended() {
    let catalog = staged();
    let of = catalog.publications_of(place(0, 0));
    assert_eq!(pending(&catalog, 0, 0), [5, 9]);
    // Stages of one publication keep the order of the commit.
    assert_eq!(of[0].ids, [stage(30), stage(10)]);
    assert_eq!(of[0].partition_incarnation, 2);
    assert_eq!(of[0].ids[0].expires_at(), Timestamp(30));
    assert_eq!(pending(&catalog, 1, 1), [0_u64; 0]);
    let places: Vec<_> = catalog
        .publications()
        .map(|(place, stages)| (place.topic().0, place.partition().0, stages.number))
        .collect();
    assert_eq!(places, [(0, 0, 5), (0, 0, 9), (0, 1, 9), (1, 0, 9)]);
}

#[test]
fn what_is_appended_goes_with_everything_before_it() {
    let deleted = |number| {
        let change = Change::PublicationsDeleted(key(0, 0, number));
        pending(&applied(&staged(), vec![change]).expect("is valid"), 0, 0)
    };
    assert_eq!(deleted(4), [5, 9]);
    assert_eq!(deleted(5), [9]);
    assert_eq!(deleted(8), [9]);
    assert_eq!(deleted(9), [0_u64; 0]);
    let change = Change::PublicationsDeleted(key(0, 0, 9));
    let after = applied(&staged(), vec![change]).expect("is valid");
    assert_eq!(pending(&after, 0, 1), [9]);
    assert_eq!(given_up(&after, 0, 0), [6, 7]);
}

#[test]
fn stages_that_were_given_up_are_forgotten_one_command_at_a_time() {
    let change = Change::AbortedStagesDeleted(key(0, 0, 7));
    let after = applied(&staged(), vec![change]).expect("is valid");
    assert_eq!(given_up(&after, 0, 0), [6]);
    assert_eq!(pending(&after, 0, 0), [5, 9]);
}

#[test]
fn a_snapshot_holds_them() {
    let snapshot = staged().to_snapshot();
    assert_eq!(snapshot.publications.len(), 4);
    assert_eq!(snapshot.aborted_stages.len(), 2);
    let rebuilt = Catalog::from_snapshot(&snapshot).expect("is valid");
    assert_eq!(rebuilt.to_snapshot(), snapshot);
}

#[test]
fn they_go_with_their_topic() {
    let counts = |changes| {
        let catalog = applied(&staged(), changes).expect("is valid");
        (
            catalog.publications().count(),
            catalog.aborted_stages().count(),
        )
    };
    let topic_deleted = Change::TopicDeleted(v1::TopicKey::default());
    assert_eq!(counts(vec![topic_deleted]), (1, 0));
    assert_eq!(counts(vec![Change::StreamDeleted(0)]), (0, 0));
    // Another topic with the same id.
    assert_eq!(counts(vec![topic(0, 3)]), (1, 0));
    assert_eq!(counts(vec![topic(0, 2)]), (4, 2));
}

#[test]
fn what_has_nothing_to_do_with_them_leaves_them_shared() {
    let catalog = staged();
    let same = vec![
        topic(1, 2),
        Change::PublicationsDeleted(key(1, 0, 8)),
        Change::AbortedStagesDeleted(key(0, 0, 8)),
    ];
    assert!(
        applied(&catalog, same)
            .expect("fits")
            .shares_stages_with(&catalog)
    );
    let other = vec![Change::PublicationsDeleted(key(0, 0, 5))];
    let after = applied(&catalog, other).expect("fits");
    assert!(!after.shares_stages_with(&catalog));
    let (before, after) = (
        catalog.publications_of(place(0, 0)),
        after.publications_of(place(0, 0)),
    );
    assert!(Arc::ptr_eq(&before[1], &after[0]));
    let other = vec![aborted(0, 1, 12, &[90])];
    assert!(
        !applied(&catalog, other)
            .expect("fits")
            .shares_stages_with(&catalog)
    );
}

#[test]
fn records_that_make_no_sense_are_refused() {
    let mut short = v1::PendingPublication {
        partition_incarnation: 2,
        number: 12,
        stage_ids: vec![vec![0; 15]],
        ..Default::default()
    };
    let mut changes = vec![Change::PublicationPut(short.clone())];
    short.stage_ids.clear();
    // Another partition that had this id, and one that does not exist.
    short.partition_incarnation = 3;
    changes.push(Change::PublicationPut(short.clone()));
    short.partition_id = 2;
    changes.push(Change::PublicationPut(short.clone()));
    short.partition_id = 1 << 20;
    changes.push(Change::PublicationPut(short));
    changes.push(aborted(5, 0, 12, &[1]));
    for change in changes {
        let error = applied(&staged(), vec![change]).expect_err("refused");
        assert!(matches!(error, ApplyError::InvalidStages { .. }), "{error}");
    }
}
