//! CTL-9: permission evaluation against the predicates written out one by one.

use headrace_catalog::{Action, Catalog, authorise, authorise_unless_self};
use headrace_model::{StreamId, TopicId, UserId};
use headrace_proto::catalog::v1;
use proptest::prelude::*;

const USER: UserId = UserId(7);

/// The table of the protocol reference, row by row and word for word; deliberately slow and simple.
fn expected(permissions: &v1::Permissions, action: Action) -> bool {
    let g = permissions.global.unwrap_or_default();
    let stream_of = |id: StreamId| {
        let found = permissions.streams.iter().rfind(|s| s.stream_id == id.0);
        found.cloned().unwrap_or_default()
    };
    let topic_of = |stream: StreamId, id: TopicId| {
        let stream = stream_of(stream);
        let found = stream.topics.iter().rfind(|t| t.topic_id == id.0);
        found.copied().unwrap_or_default()
    };
    match action {
        Action::ReadServers => g.manage_servers || g.read_servers,
        Action::ManageServers => g.manage_servers,
        Action::ReadUsers => g.manage_users || g.read_users,
        Action::ManageUsers => g.manage_users,
        Action::ListStreams => g.manage_streams || g.read_streams,
        Action::ReadStream(stream) => {
            let s = stream_of(stream);
            g.manage_streams || g.read_streams || s.manage_stream || s.read_stream
        }
        Action::CreateStream => g.manage_streams,
        Action::ManageStream(stream) => g.manage_streams || stream_of(stream).manage_stream,
        Action::ListTopics(stream) => {
            let s = stream_of(stream);
            (g.manage_streams || g.read_streams || g.manage_topics || g.read_topics)
                || (s.manage_stream || s.read_stream || s.manage_topics || s.read_topics)
        }
        Action::ReadTopic(stream, topic) => {
            let t = topic_of(stream, topic);
            expected(permissions, Action::ListTopics(stream)) || t.manage_topic || t.read_topic
        }
        Action::CreateTopic(stream) => {
            let s = stream_of(stream);
            g.manage_streams || g.manage_topics || s.manage_stream || s.manage_topics
        }
        Action::ManageTopic(stream, topic) => {
            expected(permissions, Action::CreateTopic(stream))
                || topic_of(stream, topic).manage_topic
        }
        Action::Poll(stream, topic) => {
            let s = stream_of(stream);
            let t = topic_of(stream, topic);
            (g.poll_messages || g.read_topics || g.manage_topics)
                || (g.read_streams || g.manage_streams)
                || (s.poll_messages || s.manage_stream || s.read_stream)
                || (s.manage_topics || s.read_topics)
                || (t.manage_topic || t.read_topic || t.poll_messages)
        }
        Action::Send(stream, topic) => {
            let s = stream_of(stream);
            let t = topic_of(stream, topic);
            (g.send_messages || g.manage_streams || g.manage_topics)
                || (s.send_messages || s.manage_stream || s.manage_topics)
                || (t.manage_topic || t.send_messages)
        }
    }
}

/// Rights are rare: with half of them set nearly everything would be granted.
fn bits(count: usize) -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(prop::bool::weighted(0.12), count)
}

fn topic() -> impl Strategy<Value = v1::TopicPermissions> {
    (0_u32..3, bits(4)).prop_map(|(topic_id, bits)| v1::TopicPermissions {
        topic_id,
        manage_topic: bits[0],
        read_topic: bits[1],
        poll_messages: bits[2],
        send_messages: bits[3],
    })
}

fn stream() -> impl Strategy<Value = v1::StreamPermissions> {
    (0_u32..3, bits(6), prop::collection::vec(topic(), 0..4)).prop_map(
        |(stream_id, bits, topics)| v1::StreamPermissions {
            stream_id,
            manage_stream: bits[0],
            read_stream: bits[1],
            manage_topics: bits[2],
            read_topics: bits[3],
            poll_messages: bits[4],
            send_messages: bits[5],
            topics,
        },
    )
}

fn permissions() -> impl Strategy<Value = v1::Permissions> {
    let global = bits(10).prop_map(|bits| v1::GlobalPermissions {
        manage_servers: bits[0],
        read_servers: bits[1],
        manage_users: bits[2],
        read_users: bits[3],
        manage_streams: bits[4],
        read_streams: bits[5],
        manage_topics: bits[6],
        read_topics: bits[7],
        poll_messages: bits[8],
        send_messages: bits[9],
    });
    (
        prop::option::of(global),
        prop::collection::vec(stream(), 0..4),
    )
        .prop_map(|(global, streams)| v1::Permissions { global, streams })
}

fn every_action() -> Vec<Action> {
    let mut actions = vec![
        Action::ReadServers,
        Action::ReadUsers,
        Action::ManageUsers,
        Action::ListStreams,
        Action::CreateStream,
    ];
    for stream in (0..3).map(StreamId) {
        actions.extend([
            Action::ReadStream(stream),
            Action::ManageStream(stream),
            Action::ListTopics(stream),
            Action::CreateTopic(stream),
        ]);
        for topic in (0..3).map(TopicId) {
            actions.extend([
                Action::ReadTopic(stream, topic),
                Action::ManageTopic(stream, topic),
                Action::Poll(stream, topic),
                Action::Send(stream, topic),
            ]);
        }
    }
    actions
}

fn catalog_with(permissions: Option<v1::Permissions>) -> Catalog {
    let user = |id: u32, permissions| v1::User {
        id,
        username: format!("user{id}"),
        // An inactive user keeps its sessions, which keep their rights.
        status: v1::UserStatus::Inactive.into(),
        permissions,
        ..Default::default()
    };
    Catalog::from_snapshot(&v1::Snapshot {
        version: 1,
        users: vec![user(0, None), user(USER.0, permissions)],
        ..Default::default()
    })
    .expect("is valid")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn predicates_are_those_of_the_protocol(permissions in permissions()) {
        let catalog = catalog_with(Some(permissions.clone()));
        for action in every_action() {
            prop_assert_eq!(
                authorise(&catalog, USER, action),
                expected(&permissions, action),
                "{:?}", action
            );
        }
    }
}

/// Each right alone, because the random records above might miss one.
#[test]
fn every_single_right_grants_what_the_table_says() {
    for bit in 0..20 {
        let set = |at: u32| at == bit;
        let permissions = v1::Permissions {
            global: Some(v1::GlobalPermissions {
                manage_servers: set(0),
                read_servers: set(1),
                manage_users: set(2),
                read_users: set(3),
                manage_streams: set(4),
                read_streams: set(5),
                manage_topics: set(6),
                read_topics: set(7),
                poll_messages: set(8),
                send_messages: set(9),
            }),
            streams: vec![v1::StreamPermissions {
                stream_id: 1,
                manage_stream: set(10),
                read_stream: set(11),
                manage_topics: set(12),
                read_topics: set(13),
                poll_messages: set(14),
                send_messages: set(15),
                topics: vec![v1::TopicPermissions {
                    topic_id: 2,
                    manage_topic: set(16),
                    read_topic: set(17),
                    poll_messages: set(18),
                    send_messages: set(19),
                }],
            }],
        };
        let catalog = catalog_with(Some(permissions.clone()));
        for action in every_action() {
            assert_eq!(
                authorise(&catalog, USER, action),
                expected(&permissions, action),
                "bit {bit}, {action:?}"
            );
        }
    }
}

#[test]
fn root_may_do_everything_and_users_without_permissions_nothing() {
    let catalog = catalog_with(None);
    for action in every_action() {
        assert!(authorise(&catalog, UserId::ROOT, action));
        assert!(!authorise(&catalog, USER, action));
        assert!(!authorise(&catalog, UserId(99), action));
        assert!(authorise_unless_self(&catalog, USER, USER, action));
        assert!(!authorise_unless_self(&catalog, USER, UserId(99), action));
    }
}
