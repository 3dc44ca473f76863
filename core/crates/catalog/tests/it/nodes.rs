//! Projection of partition nodes and placements.

use std::sync::Arc;

use headrace_catalog::{ApplyError, Catalog};
use headrace_model::{Namespace, NodeId, PartitionId, StreamId, TopicId};
use headrace_proto::catalog::v1::{self, delta::Change};

fn stream(incarnation: u64) -> Change {
    Change::StreamPut(v1::Stream {
        name: "s".into(),
        incarnation,
        ..Default::default()
    })
}

fn topic(incarnation: u64) -> Change {
    Change::TopicPut(v1::Topic {
        name: "t".into(),
        incarnation,
        compression: v1::CompressionAlgorithm::None.into(),
        replication_factor: 1,
        partitions: vec![v1::Partition::default()],
        ..Default::default()
    })
}

fn node(id: u32, status: v1::NodeStatus) -> v1::Node {
    v1::Node {
        id,
        name: format!("node {id}"),
        incarnation: 7,
        binary_address: "127.0.0.1:8100".into(),
        grpc_address: "127.0.0.1:8101".into(),
        shards: 4,
        registered_at_micros: 5,
        status: status.into(),
        is_draining: id == 2,
    }
}

fn placement() -> v1::TopicPlacement {
    v1::TopicPlacement {
        partitions: vec![v1::PartitionPlacement {
            node_ids: vec![2, 1],
            leaving_node_ids: vec![3],
            epoch: 9,
            is_pinned: true,
            holder_node_id: 3,
        }],
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

fn placed() -> Catalog {
    let changes = vec![
        stream(1),
        topic(2),
        Change::NodePut(node(1, v1::NodeStatus::Live)),
        Change::NodePut(node(2, v1::NodeStatus::Silent)),
        Change::TopicPlacementPut(placement()),
    ];
    applied(&Catalog::default(), changes).expect("is valid")
}

#[test]
fn nodes_and_placements_are_looked_up() {
    let catalog = placed();
    let node = catalog.node(NodeId(2)).expect("exists");
    assert!(!node.is_live && node.is_draining);
    assert_eq!((&*node.name, node.shards), ("node 2", 4));
    assert!(catalog.node(NodeId(1)).expect("exists").is_live);
    let placement = catalog
        .placement_of(StreamId(0), TopicId(0))
        .expect("placed");
    let partition = placement.partition(PartitionId(0)).expect("exists");
    assert_eq!(partition.nodes, [NodeId(2), NodeId(1)]);
    assert_eq!(partition.leaving, [NodeId(3)]);
    assert!(placement.partition(PartitionId(1)).is_none());
}

#[test]
fn the_holder_is_looked_up() {
    let first = Namespace::new(StreamId(0), TopicId(0), PartitionId(0)).expect("fits");
    let second = Namespace::new(StreamId(0), TopicId(0), PartitionId(1)).expect("fits");
    let holder = |catalog: &Catalog| catalog.leader(first).map(|node| node.id);
    let held_by = |node: u32| {
        let mut placement = placement();
        placement.partitions[0].holder_node_id = node;
        applied(&placed(), vec![Change::TopicPlacementPut(placement)]).expect("is valid")
    };
    assert_eq!(holder(&held_by(2)), Some(NodeId(2)));
    assert_eq!(holder(&held_by(1)), Some(NodeId(1)));
    assert_eq!(holder(&held_by(0)), None);
    // Node 3, the only one with the messages, is no longer known.
    assert_eq!(holder(&held_by(3)), None);
    assert_eq!(placed().leader(second), None);
    assert_eq!(holder(&Catalog::default()), None);
}

#[test]
fn a_snapshot_holds_them() {
    let catalog = placed();
    let snapshot = catalog.to_snapshot();
    assert_eq!(snapshot.topic_placements, [placement()]);
    let rebuilt = Catalog::from_snapshot(&snapshot).expect("is valid");
    assert_eq!(rebuilt.to_snapshot(), snapshot);
}

#[test]
fn a_placement_goes_with_its_topic() {
    let gone = |changes| {
        let catalog = applied(&placed(), changes).expect("is valid");
        catalog.placement_of(StreamId(0), TopicId(0)).is_none()
    };
    assert!(gone(vec![Change::TopicDeleted(v1::TopicKey::default())]));
    assert!(gone(vec![Change::StreamDeleted(0)]));
    // Another topic with the same id has another placement.
    assert!(gone(vec![topic(3)]));
    assert!(!gone(vec![topic(2)]));
    assert!(!gone(vec![Change::StreamDeleted(1)]));
}

#[test]
fn a_removed_node_is_gone_and_the_rest_stays_shared() {
    let catalog = placed();
    let after = applied(&catalog, vec![Change::NodeDeleted(1)]).expect("is valid");
    assert!(after.node(NodeId(1)).is_none());
    let (before, after) = (catalog.node(NodeId(2)), after.node(NodeId(2)));
    assert!(Arc::ptr_eq(before.expect("exists"), after.expect("exists")));
}

#[test]
fn records_that_make_no_sense_are_refused() {
    let mut unknown = placement();
    unknown.topic_id = 1;
    let error = applied(&placed(), vec![Change::TopicPlacementPut(unknown)]).expect_err("refused");
    assert!(matches!(error, ApplyError::UnknownTopic { .. }), "{error}");
    let strange = Change::NodePut(node(1, v1::NodeStatus::Unspecified));
    let error = applied(&placed(), vec![strange]).expect_err("refused");
    assert!(matches!(error, ApplyError::InvalidNode { .. }), "{error}");
}
