//! Sessions that end before their connections do.

use headrace_model::{StreamId, TopicId, UserId};
use headrace_proto::{
    catalog::v1::{self as records, delta::Change},
    control::v1::{self as control, request::Operation},
};
use headrace_ticket::{Access, Issuer, Scope, Ticket};
use headrace_wire::{
    Command, Identifier, PollingStrategy, Status,
    command::{
        ChangePassword, CreateUser, DisconnectClient, GroupPath, LoginWithTicket, PollMessages,
        UpdatePermissions, UpdateUser, WaitMessages,
    },
    permissions::{GlobalPermissions, Permissions},
};

use crate::shards::{
    nodes::{HERE, node_here},
    served::peer::INCARNATION,
};
use crate::world::{World, polling, ticket_key, user as user_record};

const PASSWORD_VERSION: u64 = 4;
const TOKEN: u64 = 70;

fn with_status(user: Change, status: records::UserStatus, password_version: u64) -> Change {
    let Change::UserPut(user) = user else {
        panic!("{user:?} is no user");
    };
    Change::UserPut(records::User {
        status: status.into(),
        password_version,
        ..user
    })
}

fn user(status: records::UserStatus, password_version: u64) -> Change {
    with_status(user_record(0, "root", None), status, password_version)
}

fn active(password_version: u64) -> Change {
    user(records::UserStatus::Active, password_version)
}

fn token(incarnation: u64) -> Change {
    Change::AccessTokenPut(records::AccessToken {
        user_id: 0,
        name: "ci".into(),
        expires_at_micros: 0,
        incarnation,
    })
}

/// A world whose user has a password of version 4 and an access token.
fn world() -> World {
    let mut world = World::new().with_topic(1);
    world.publish(vec![active(PASSWORD_VERSION), token(TOKEN)]);
    world.credential.password_version = PASSWORD_VERSION;
    world
}

fn streams(world: &mut World, link: usize) -> Status {
    world.ask(link, &Command::GetStreams).status
}

fn wait() -> Command<'static> {
    Command::WaitMessages(WaitMessages {
        poll: PollMessages {
            auto_commit: false,
            ..polling(0, PollingStrategy::Next, 1)
        },
        minimum_bytes: 1,
        maximum_wait_micros: 20_000_000,
    })
}

/// Every kind of credential, and a session that is based on it.
#[test]
fn a_session_ends_with_what_it_rests_on() {
    let ends: [(&str, Vec<Change>); 4] = [
        (
            "deactivated",
            vec![user(records::UserStatus::Inactive, PASSWORD_VERSION)],
        ),
        ("another password", vec![active(PASSWORD_VERSION + 1)]),
        (
            "no such token",
            vec![Change::AccessTokenDeleted(records::AccessTokenKey {
                user_id: 0,
                name: "ci".into(),
            })],
        ),
        ("another token of this name", vec![token(TOKEN + 1)]),
    ];
    for (name, end) in ends {
        let mut world = world();
        world.credential.token_incarnation = TOKEN;
        let (idle, waiting, back) = (world.login(0), world.login(1), world.login(1));
        world.request(waiting, &wait());
        assert_eq!(world.try_reply(waiting), None, "{name}: it waits");
        assert_eq!(streams(&mut world, idle), Status::OK, "{name}");
        world.publish(end);
        assert_eq!(
            world.reply(waiting).status,
            Status::UNAUTHENTICATED,
            "{name}: the wait"
        );
        for link in [idle, waiting] {
            assert_eq!(streams(&mut world, link), Status::UNAUTHENTICATED, "{name}");
            assert_eq!(
                world.send(link, 0, &[b"m"]),
                Status::UNAUTHENTICATED,
                "{name}"
            );
        }
        world.publish(vec![active(PASSWORD_VERSION), token(TOKEN)]);
        assert_eq!(
            streams(&mut world, idle),
            Status::UNAUTHENTICATED,
            "{name}: it is over"
        );
        let login = crate::world::login("secret");
        assert_eq!(world.ask(back, &login).status, Status::OK, "{name}");
        world.pass(9_000_000);
        assert!(!world.is_finished(idle), "{name}: it may log in");
        world.pass(2_000_000);
        for link in [idle, waiting] {
            assert!(world.is_finished(link), "{name}: without a login");
        }
        assert!(!world.is_finished(back), "{name}: with another login");
        assert_eq!(streams(&mut world, back), Status::OK, "{name}");
    }
}

#[test]
fn a_session_ends_when_its_token_expires() {
    let mut world = world();
    world.credential.token_incarnation = TOKEN;
    world.credential.expires_at_micros = world.now + 3_000_000;
    let (idle, waiting) = (world.login(0), world.login(1));
    world.credential = control::Credential::default();
    let lasting = world.login(0);
    world.request(waiting, &wait());
    world.pass(2_900_000);
    assert_eq!(world.try_reply(waiting), None);
    assert_eq!(streams(&mut world, idle), Status::OK);
    world.pass(200_000);
    assert_eq!(world.reply(waiting).status, Status::UNAUTHENTICATED);
    assert_eq!(streams(&mut world, idle), Status::UNAUTHENTICATED);
    assert_eq!(streams(&mut world, lasting), Status::OK);
}

/// A credential that was valid when the login began may be revoked when it completes.
#[test]
fn a_login_with_what_is_over_by_now_is_none() {
    let mut world = world();
    world.credential.password_version = PASSWORD_VERSION - 1;
    let link = world.connect(0);
    let reply = world.ask(link, &crate::world::login("secret"));
    assert_eq!(reply.status, Status::INVALID_CREDENTIALS);
    assert_eq!(streams(&mut world, link), Status::UNAUTHENTICATED);
}

fn change_password() -> Command<'static> {
    Command::ChangePassword(ChangePassword {
        user: Identifier::Numeric(0),
        current_password: "secret",
        new_password: "another",
    })
}

/// A session that changes its own password remains valid, whether the catalog or the reply arrives first.
#[test]
fn who_changes_a_password_stays_and_all_others_go() {
    let mut world = world();
    let (changing, other) = (world.login(0), world.login(1));
    world.control_held = true;
    world.request(changing, &change_password());
    world.publish(vec![active(PASSWORD_VERSION + 1)]);
    world.control_held = false;
    world.release_control();
    assert_eq!(world.reply(changing).status, Status::OK);
    assert_eq!(streams(&mut world, changing), Status::OK);
    assert_eq!(streams(&mut world, other), Status::UNAUTHENTICATED);
    world.publish(vec![active(PASSWORD_VERSION + 2)]);
    assert_eq!(
        streams(&mut world, changing),
        Status::UNAUTHENTICATED,
        "another session has changed it"
    );
}

/// Partitions of a member are available to others after its session has ended.
#[test]
fn the_memberships_of_a_session_end_with_it() {
    let mut world = world();
    let link = world.login(0);
    let join = Command::JoinConsumerGroup(GroupPath {
        stream: Identifier::Numeric(0),
        topic: Identifier::Numeric(0),
        group: Identifier::Numeric(0),
    });
    world.request(link, &join);
    world.publish(vec![Change::ConsumerGroupPut(records::ConsumerGroup {
        name: "g".into(),
        partitions_count: 1,
        ..Default::default()
    })]);
    let _ = world.try_reply(link);
    world.request(link, &join);
    assert_eq!(world.reply(link).status, Status::OK);
    world.notices.clear();
    world.publish(vec![active(PASSWORD_VERSION + 1)]);
    let gone =
        |request: &control::Request| matches!(request.operation, Some(Operation::ClientGone(_)));
    assert_eq!(
        world.notices.iter().filter(|notice| gone(notice)).count(),
        1
    );
}

/// In-process sessions: the other interfaces check passwords and tokens themselves, because they know more about them.
#[test]
fn a_session_of_this_process_is_refused_while_its_user_is_inactive() {
    let mut world = world();
    let link = world.in_process(0, 0);
    world.publish(vec![active(PASSWORD_VERSION + 1)]);
    assert_eq!(streams(&mut world, link), Status::OK);
    world.publish(vec![user(
        records::UserStatus::Inactive,
        PASSWORD_VERSION + 1,
    )]);
    assert_eq!(streams(&mut world, link), Status::UNAUTHENTICATED);
    world.publish(vec![active(PASSWORD_VERSION + 1)]);
    assert_eq!(streams(&mut world, link), Status::OK);
}

#[test]
fn a_client_is_disconnected_by_who_manages_the_server() {
    let mut world = world();
    let (admin, victim, own) = (world.login(0), world.login(1), world.in_process(1, 0));
    let disconnect = |client_id| Command::DisconnectClient(DisconnectClient { client_id });
    assert_eq!(
        world.ask(admin, &disconnect(0)).status,
        Status::INVALID_CLIENT_ID
    );
    assert_eq!(
        world.ask(admin, &disconnect(99)).status,
        Status::CLIENT_NOT_FOUND
    );
    assert_eq!(
        world.ask(admin, &disconnect(3)).status,
        Status::CLIENT_NOT_FOUND,
        "its own"
    );
    assert_eq!(world.ask(admin, &disconnect(2)).status, Status::OK);
    world.pass(100_000);
    assert!(world.is_closed(victim) && !world.is_closed(own) && !world.is_closed(admin));
    assert_eq!(
        world.ask(admin, &disconnect(2)).status,
        Status::CLIENT_NOT_FOUND
    );
    let limited = limited(
        &mut world,
        7,
        GlobalPermissions {
            read_servers: true,
            ..Default::default()
        },
    );
    assert_eq!(
        world.ask(limited, &disconnect(1)).status,
        Status::UNAUTHORIZED
    );
}

/// An in-process connection on behalf of a user with these permissions.
fn limited(world: &mut World, id: u32, global: GlobalPermissions) -> usize {
    let permissions = records::GlobalPermissions {
        manage_users: global.manage_users,
        read_servers: global.read_servers,
        poll_messages: global.poll_messages,
        ..Default::default()
    };
    world.publish(vec![user_record(
        id,
        &format!("user {id}"),
        Some(permissions),
    )]);
    world.in_process(0, id)
}

/// Permission to manage users does not include all permissions, and root remains root.
#[test]
fn who_manages_users_does_not_become_root() {
    let mut world = world();
    let manages = GlobalPermissions {
        manage_users: true,
        ..Default::default()
    };
    let link = limited(&mut world, 7, manages);
    let polls = GlobalPermissions {
        poll_messages: true,
        ..Default::default()
    };
    limited(&mut world, 8, polls);
    limited(&mut world, 9, GlobalPermissions::default());
    let all = GlobalPermissions {
        manage_users: true,
        manage_servers: true,
        ..Default::default()
    };
    let permissions = |global| {
        Some(Permissions {
            global,
            ..Default::default()
        })
    };
    let update = |user, global| {
        Command::UpdatePermissions(UpdatePermissions {
            user: Identifier::Numeric(user),
            permissions: permissions(global),
        })
    };
    let create = |global| {
        Command::CreateUser(CreateUser {
            username: "another",
            password: "secret",
            status_code: 1,
            permissions: permissions(global),
        })
    };
    let status = |user, username, code| {
        Command::UpdateUser(UpdateUser {
            user: Identifier::Numeric(user),
            username,
            status_code: code,
        })
    };
    for refused in [
        update(7, all),
        create(all),
        status(0, None, Some(2)),
        status(0, Some("toor"), None),
        status(8, Some("free"), None),
        status(8, None, Some(2)),
    ] {
        assert_eq!(
            world.ask(link, &refused).status,
            Status::UNAUTHORIZED,
            "{refused:?}"
        );
    }
    for allowed in [
        update(7, manages),
        create(manages),
        status(9, Some("free"), Some(2)),
        status(7, Some("new"), Some(2)),
    ] {
        assert_eq!(world.ask(link, &allowed).status, Status::OK, "{allowed:?}");
    }
    let root = world.login(0);
    assert_eq!(
        world.ask(root, &status(0, None, Some(2))).status,
        Status::UNAUTHORIZED
    );
    for allowed in [status(0, Some("toor"), None), update(7, all), create(all)] {
        assert_eq!(world.ask(root, &allowed).status, Status::OK, "{allowed:?}");
    }
}

/// Each refusal for a missing permission is reported, until there are too many.
#[test]
fn refusals_of_rights_are_reported() {
    let mut world = world();
    world.publish(vec![active(PASSWORD_VERSION)]);
    let link = world.connect_by(0, |address| headrace_shard::Arrival {
        user: Some(UserId(7)),
        ..headrace_shard::Arrival::tcp(address)
    });
    limited(&mut world, 7, GlobalPermissions::default());
    world.notices.clear();
    assert_eq!(streams(&mut world, link), Status::UNAUTHORIZED);
    assert_eq!(world.send(link, 0, &[b"m"]), Status::UNAUTHORIZED);
    let noted = |request: &control::Request| match &request.operation {
        Some(Operation::Noted(noted)) => (request.user_id, noted.command, noted.status),
        other => panic!("{other:?}"),
    };
    let notices: Vec<_> = world.notices.iter().map(noted).collect();
    let refused = Status::UNAUTHORIZED.0;
    assert_eq!(notices, [(Some(7), 201, refused), (Some(7), 101, refused)]);
    for _ in 0..200 {
        assert_eq!(streams(&mut world, link), Status::UNAUTHORIZED);
    }
    assert!(world.notices.len() < 50, "{}", world.notices.len());
}

/// Log in at a node with a ticket that a user has issued.
fn shown(world: &mut World, issuer: Issuer) -> (usize, Status) {
    let ticket = Ticket {
        holder: "pipeline".into(),
        scope: Scope::Topic {
            stream: StreamId(0),
            topic: TopicId(0),
            incarnation: INCARNATION,
            access: Access::READ,
        },
        not_after: world.now / 1_000_000 + 60,
        id: 1,
        issuer: Some(issuer),
    };
    let ticket = ticket.sign(&ticket_key()).expect("a sound holder");
    let link = world.connect(0);
    let login = Command::LoginWithTicket(LoginWithTicket { ticket: &ticket });
    let status = world.ask(link, &login).status;
    (link, status)
}

/// Tickets end at nodes together with the login that issued them, and with the permission.
#[test]
fn a_ticket_ends_with_its_issuer() {
    let issuer = Issuer {
        user: UserId(7),
        password_version: 1,
        token: 0,
    };
    let polls = GlobalPermissions {
        poll_messages: true,
        ..Default::default()
    };
    let ends: [(&str, Change); 3] = [
        ("gone", Change::UserDeleted(7)),
        ("another password", changed(records::UserStatus::Active, 2)),
        ("inactive", changed(records::UserStatus::Inactive, 1)),
    ];
    for (name, end) in ends {
        let mut world = node_here(&[HERE]);
        limited(&mut world, 7, polls);
        let (link, status) = shown(&mut world, issuer);
        assert_eq!(status, Status::OK, "{name}");
        world.request(link, &wait());
        assert_eq!(world.try_reply(link), None, "{name}: it waits");
        world.publish(vec![end]);
        assert_eq!(world.reply(link).status, Status::UNAUTHENTICATED, "{name}");
        world.pass(2_000_000);
        assert!(world.is_closed(link), "{name}");
        assert_eq!(
            shown(&mut world, issuer).1,
            Status::INVALID_TICKET,
            "{name}"
        );
    }
    let mut world = node_here(&[HERE]);
    limited(&mut world, 7, polls);
    let (link, _) = shown(&mut world, issuer);
    world.request(link, &wait());
    limited(&mut world, 7, GlobalPermissions::default());
    assert_eq!(
        world.reply(link).status,
        Status::UNAUTHORIZED,
        "without the right"
    );
}

fn changed(status: records::UserStatus, password_version: u64) -> Change {
    let permissions = records::GlobalPermissions {
        poll_messages: true,
        ..Default::default()
    };
    with_status(
        user_record(7, "user 7", Some(permissions)),
        status,
        password_version,
    )
}
