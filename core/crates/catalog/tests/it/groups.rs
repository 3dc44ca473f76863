//! Consumer groups in the catalog: put, replaced, removed; and rotation of their partitions (CTL-8).
#![allow(missing_docs, reason = "a test")]

use headrace_catalog::{ApplyError, Catalog, Group};
use headrace_model::{ClientId, ClientKey, GroupId, PartitionId, StreamId, TopicId, UserId};
use headrace_proto::catalog::v1::{self, delta::Change};
use headrace_wire::Identifier;

const HERE: u64 = 7;

fn topic(id: u32, incarnation: u64) -> Change {
    Change::TopicPut(v1::Topic {
        stream_id: 1,
        id,
        name: format!("topic {id}"),
        incarnation,
        compression: v1::CompressionAlgorithm::None.into(),
        ..Default::default()
    })
}

fn stream(incarnation: u64) -> Change {
    Change::StreamPut(v1::Stream {
        id: 1,
        name: "s".into(),
        incarnation,
        ..Default::default()
    })
}

fn member(id: u32, partitions: &[u32], revoked: &[u32]) -> v1::GroupMember {
    v1::GroupMember {
        id,
        gateway_id: HERE,
        client_id: 10 + id,
        incarnation: 100 + u64::from(id),
        partitions: partitions.to_vec(),
        revocations: revoked
            .iter()
            .map(|partition_id| v1::Revocation {
                partition_id: *partition_id,
                to_member_id: 99,
                incarnation: 5,
                deadline_micros: 6,
            })
            .collect(),
        ..Default::default()
    }
}

fn record(topic_id: u32, id: u32, members: Vec<v1::GroupMember>) -> v1::ConsumerGroup {
    v1::ConsumerGroup {
        owner_user_id: Some(3),
        stream_id: 1,
        topic_id,
        id,
        name: format!("group {id}"),
        created_at_micros: 3,
        key: 100 * topic_id + id,
        generation: 4,
        partitions_count: 6,
        revocation_timeout_micros: 30,
        members,
    }
}

fn applied(catalog: &Catalog, changes: Vec<Change>) -> Result<Catalog, ApplyError> {
    let delta = |change| v1::Delta {
        change: Some(change),
    };
    catalog.apply(&v1::Update {
        version: catalog.version() + 1,
        deltas: changes.into_iter().map(delta).collect(),
    })
}

/// Two topics with two groups each.
fn catalog() -> Catalog {
    let mut changes = vec![stream(1), topic(0, 2), topic(1, 3)];
    for topic_id in [0, 1] {
        for id in [0, 1] {
            let members = vec![member(0, &[0, 1, 3], &[1]), member(2, &[2, 4, 5], &[])];
            changes.push(Change::ConsumerGroupPut(record(topic_id, id, members)));
        }
    }
    applied(&Catalog::default(), changes).expect("is valid")
}

fn group(catalog: &Catalog, topic: u32, id: u32) -> Option<&Group> {
    let found = catalog.group(StreamId(1), TopicId(topic), GroupId(id));
    found.map(AsRef::as_ref)
}

fn client(id: u32) -> ClientKey {
    ClientKey {
        gateway: HERE,
        client: ClientId(id),
    }
}

fn turns(group: &Group, count: usize) -> Vec<Option<u32>> {
    let member = group.member(client(10)).expect("is a member");
    (0..count)
        .map(|_| member.next_partition().map(|partition| partition.0))
        .collect()
}

#[test]
fn they_are_found_by_number_and_by_name_and_by_member() {
    let catalog = catalog();
    let groups = catalog
        .groups_of(StreamId(1), TopicId(1))
        .expect("has groups");
    assert_eq!(
        groups.named(&Identifier::Named("group 1")).map(|g| g.key),
        Some(101)
    );
    assert_eq!(
        groups.named(&Identifier::Numeric(0)).map(|g| g.key),
        Some(100)
    );
    assert!(groups.named(&Identifier::Named("1")).is_none());
    assert!(groups.has_key(101) && !groups.has_key(0));
    assert_eq!(catalog.groups().count(), 4);
    assert_eq!(catalog.groups_of_client(client(12)).count(), 4);
    assert_eq!(catalog.groups_of_client(client(2)).count(), 0);
    let outsider = ClientKey {
        gateway: HERE + 1,
        client: ClientId(12),
    };
    assert_eq!(catalog.groups_of_client(outsider).count(), 0);
}

#[test]
fn a_group_is_free_to_its_owner_and_without_one_to_its_members() {
    let with = |owner_user_id, users: &[u32]| {
        let members = (users.iter().zip(0..))
            .map(|(user_id, id)| v1::GroupMember {
                user_id: *user_id,
                ..member(id, &[], &[])
            })
            .collect();
        let record = v1::ConsumerGroup {
            owner_user_id,
            ..record(0, 0, members)
        };
        let catalog = applied(&catalog(), vec![Change::ConsumerGroupPut(record)]);
        let catalog = catalog.expect("is valid");
        let group = group(&catalog, 0, 0).expect("is there");
        [3, 4].map(|user| group.is_free_to(UserId(user)))
    };
    assert_eq!(with(Some(3), &[4]), [true, false]);
    assert_eq!(with(Some(3), &[]), [true, false]);
    assert_eq!(with(None, &[]), [true, true], "of an earlier release");
    assert_eq!(with(None, &[4, 4]), [false, true]);
    assert_eq!(with(None, &[3, 4]), [false, false]);
}

#[test]
fn a_snapshot_holds_them_all() {
    let catalog = catalog();
    let snapshot = catalog.to_snapshot();
    assert_eq!(snapshot.consumer_groups.len(), 4);
    let again = Catalog::from_snapshot(&snapshot).expect("is valid");
    assert_eq!(again.to_snapshot(), snapshot);
}

/// Deleting a topic or a stream removes its groups, and so does replacing it by another one.
#[test]
fn groups_are_removed_with_their_topic() {
    let deleted = Change::TopicDeleted(v1::TopicKey {
        stream_id: 1,
        topic_id: 0,
    });
    let after = |changes| applied(&catalog(), changes).expect("is valid");
    assert_eq!(after(vec![deleted.clone()]).groups().count(), 2);
    assert_eq!(
        after(vec![deleted, topic(0, 9)])
            .groups_of(StreamId(1), TopicId(0))
            .map(|groups| groups.iter().count()),
        None
    );
    assert_eq!(after(vec![topic(0, 9)]).groups().count(), 2);
    assert_eq!(
        after(vec![topic(0, 2)]).groups().count(),
        4,
        "a change of the same topic"
    );
    assert_eq!(after(vec![stream(1)]).groups().count(), 4);
    assert_eq!(after(vec![stream(9)]).groups().count(), 0);
    assert_eq!(after(vec![Change::StreamDeleted(1)]).groups().count(), 0);
    let group_deleted = |group_id| {
        Change::ConsumerGroupDeleted(v1::ConsumerGroupKey {
            stream_id: 1,
            topic_id: 0,
            group_id,
        })
    };
    assert_eq!(after(vec![group_deleted(0)]).groups().count(), 3);
    assert_eq!(after(vec![group_deleted(7)]).groups().count(), 4);
    let none = after(vec![group_deleted(0), group_deleted(1)]);
    assert!(none.groups_of(StreamId(1), TopicId(0)).is_none());
}

/// The rotation covers the kept partitions and continues across versions of the catalog.
#[test]
fn a_member_polls_one_partition_after_the_other() {
    let before = catalog();
    assert_eq!(
        turns(group(&before, 0, 0).expect("exists"), 3),
        [Some(0), Some(3), Some(0)]
    );
    let put = |members| vec![Change::ConsumerGroupPut(record(0, 0, members))];
    let grown = applied(&before, put(vec![member(0, &[0, 1, 2, 3], &[])])).expect("is valid");
    let same = group(&grown, 0, 0).expect("exists");
    assert_eq!(turns(same, 3), [Some(3), Some(0), Some(1)]);
    let last = |group: &Group| group.member(client(10)).expect("is a member").last_polled();
    assert_eq!(last(same), Some(PartitionId(1)));
    let revoked_all = applied(&grown, put(vec![member(0, &[2, 3], &[2, 3])])).expect("is valid");
    let revoked_all = group(&revoked_all, 0, 0).expect("exists");
    assert_eq!(
        last(revoked_all),
        Some(PartitionId(2)),
        "the last one is another's now"
    );
    assert_eq!(turns(revoked_all, 2), [None, None]);

    let mut other = member(0, &[0, 1, 2, 3], &[]);
    other.incarnation = 999;
    let anew = applied(&grown, put(vec![other])).expect("is valid");
    assert_eq!(
        turns(group(&anew, 0, 0).expect("exists"), 2),
        [Some(0), Some(1)]
    );
}

#[test]
fn records_that_make_no_sense_are_refused() {
    let refused = |members: Vec<v1::GroupMember>, change: fn(&mut v1::ConsumerGroup)| {
        let mut record = record(0, 0, members);
        change(&mut record);
        applied(&catalog(), vec![Change::ConsumerGroupPut(record)]).is_err()
    };
    let same_client = || {
        let mut member = member(1, &[], &[]);
        member.client_id = 10;
        member
    };
    assert!(refused(
        vec![member(0, &[0], &[]), member(1, &[0], &[])],
        |_| ()
    ));
    assert!(refused(vec![member(0, &[6], &[])], |_| ()));
    assert!(refused(
        vec![member(1, &[], &[]), member(0, &[], &[])],
        |_| ()
    ));
    assert!(refused(vec![member(0, &[], &[]), same_client()], |_| ()));
    assert!(refused(vec![], |group| group.topic_id = 5));
    assert!(refused(vec![], |group| group.stream_id = 5));
    assert!(refused(vec![], |group| group.name = "group 1".into()));
    assert!(refused(vec![], |group| group.partitions_count = u32::MAX));
    assert!(!refused(vec![member(0, &[0, 5], &[5])], |_| ()));
}

/// GW-7: changes between versions include exactly the users and topics whose earlier checks have to be repeated.
#[test]
fn changes_list_affected_users_and_topics() {
    let before = catalog();
    let changes = |changes| {
        let after = applied(&before, changes).expect("is valid");
        let changes = after.changes_since(&before);
        let topics = [0, 1, 2].map(|topic| changes.has_topic(StreamId(1), TopicId(topic)));
        let is_empty = changes.is_empty();
        assert_eq!(
            is_empty,
            topics == [false; 3] && !changes.has_user(UserId(5))
        );
        (topics, changes.has_user(UserId(5)))
    };
    let other_stream = v1::Stream {
        id: 2,
        name: "other".into(),
        incarnation: 9,
        ..Default::default()
    };
    let user = v1::User {
        id: 5,
        username: "reader".into(),
        status: v1::UserStatus::Active.into(),
        ..Default::default()
    };
    assert_eq!(
        before.changes_since(&before),
        headrace_catalog::Changes::default()
    );
    let nothing = ([false; 3], false);
    assert_eq!(changes(vec![Change::StreamPut(other_stream)]), nothing);
    assert_eq!(changes(vec![topic(2, 9)]), ([false, false, true], false));
    assert_eq!(changes(vec![topic(1, 3)]), ([false, true, false], false));
    let group = record(0, 1, vec![member(0, &[0], &[])]);
    assert_eq!(
        changes(vec![Change::ConsumerGroupPut(group)]),
        ([true, false, false], false)
    );
    assert_eq!(changes(vec![Change::UserPut(user)]), ([false; 3], true));
    let renamed = v1::Stream {
        id: 1,
        name: "renamed".into(),
        incarnation: 1,
        ..Default::default()
    };
    assert_eq!(
        changes(vec![Change::StreamPut(renamed)]),
        ([true, true, false], false)
    );
    assert_eq!(
        changes(vec![Change::StreamDeleted(1)]),
        ([true, true, false], false)
    );
}
