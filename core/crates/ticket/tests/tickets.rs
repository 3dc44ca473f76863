//! Tickets permit exactly what they state, until they expire, and only in the cluster that issued them.

use headrace_model::{Namespace, PartitionId, StreamId, TopicId, UserId};
use headrace_ticket::{Access, InvalidHolder, InvalidTicket, Issuer, Key, Scope, Ticket};
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000;

fn namespace(stream: u32, topic: u32, partition: u32) -> Namespace {
    Namespace::new(StreamId(stream), TopicId(topic), PartitionId(partition)).expect("fits")
}

fn key() -> Key {
    Key::derive(b"a secret of sixteen bytes", "cluster")
}

fn access() -> impl Strategy<Value = Access> {
    any::<(bool, bool)>().prop_map(|(read, write)| Access { read, write })
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![
        Just(Scope::Cluster),
        (0_u32..4096, 0_u32..4096, any::<u64>(), access()).prop_map(
            |(stream, topic, incarnation, access)| Scope::Topic {
                stream: StreamId(stream),
                topic: TopicId(topic),
                incarnation,
                access
            }
        ),
        (0..1_u64 << 44, any::<u64>(), access()).prop_map(|(word, incarnation, access)| {
            Scope::Partition {
                namespace: Namespace::from_packed(word).expect("fits"),
                incarnation,
                access,
            }
        }),
    ]
}

fn ticket() -> impl Strategy<Value = Ticket> {
    let issuer =
        (0..u32::MAX, any::<u64>(), any::<u64>()).prop_map(|(user, version, token)| Issuer {
            user: UserId(user),
            password_version: version,
            token,
        });
    let issuer = proptest::option::of(issuer);
    (".{1,60}", scope(), any::<u64>(), any::<u128>(), issuer).prop_map(
        |(holder, scope, not_after, id, issuer)| Ticket {
            holder,
            scope,
            not_after,
            id,
            issuer,
        },
    )
}

proptest! {
    #[test]
    fn what_was_signed_is_read(ticket in ticket()) {
        let text = ticket.sign(&key()).expect("the name is not too long");
        prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)), "{text}");
        prop_assert_eq!(Ticket::verify(&text, &key(), ticket.not_after), Ok(ticket.clone()));
        if let Some(later) = ticket.not_after.checked_add(1) {
            prop_assert_eq!(Ticket::verify(&text, &key(), later), Err(InvalidTicket::Expired));
        }
    }

    /// Any change of a signed text makes it invalid.
    #[test]
    fn nothing_can_be_changed(ticket in ticket(), at in any::<prop::sample::Index>(), to in "[A-Za-z0-9_-]") {
        let text = ticket.sign(&key()).expect("the name is not too long");
        let at = at.index(text.len());
        let mut changed = text.clone();
        changed.replace_range(at..=at, &to);
        let result = Ticket::verify(&changed, &key(), 0);
        prop_assert_eq!(result.is_ok(), changed == text, "{}", changed);
        prop_assert!(Ticket::verify(&text[..at], &key(), 0).is_err());
        let longer = text + &to;
        prop_assert!(Ticket::verify(&longer, &key(), 0).is_err());
    }

    #[test]
    fn other_clusters_and_other_secrets_make_other_tickets(ticket in ticket(), secret: Vec<u8>, cluster in ".{0,20}") {
        let text = ticket.sign(&key()).expect("the name is not too long");
        let other = Key::derive(&secret, &cluster);
        prop_assert_eq!(Ticket::verify(&text, &other, 0), Err(InvalidTicket::Forged));
        let same_secret = Key::derive(b"a secret of sixteen bytes", &format!("{cluster}2"));
        prop_assert_eq!(Ticket::verify(&text, &same_secret, 0), Err(InvalidTicket::Forged));
    }

    #[test]
    fn while_the_secret_is_changed_tickets_of_both_are_recognised(ticket in ticket(), next: [u8; 32]) {
        let other = Key::derive(&next, "cluster");
        let (before, after) = (key().accepting(&next, "cluster"), other.clone().accepting(b"a secret of sixteen bytes", "cluster"));
        for signer in [key(), before.clone(), after.clone(), other.clone()] {
            let text = ticket.sign(&signer).expect("the name is not too long");
            prop_assert!(Ticket::verify(&text, &before, 0).is_ok() && Ticket::verify(&text, &after, 0).is_ok());
        }
        let text = ticket.sign(&after).expect("the name is not too long");
        prop_assert_eq!(Ticket::verify(&text, &key(), 0), Err(InvalidTicket::Forged), "it signs with its own");
        let elsewhere = key().accepting(&next, "another cluster");
        prop_assert_eq!(Ticket::verify(&text, &elsewhere, 0), Err(InvalidTicket::Forged));
    }

    #[test]
    fn any_text_is_looked_at(text in ".{0,300}", body in "[A-Za-z0-9_-]{0,500}") {
        prop_assert!(Ticket::verify(&text, &key(), NOW).is_err());
        let with_prefix = format!("hrt2.{body}");
        prop_assert!(Ticket::verify(&with_prefix, &key(), NOW).is_err());
    }

    /// Access is never wider than the scope.
    #[test]
    fn a_scope_opens_what_it_names(scope in scope(), word in 0..1_u64 << 44, incarnation in any::<u64>(), wanted in access()) {
        let place = Namespace::from_packed(word).expect("fits");
        let opens = scope.permits(place, (incarnation, incarnation), wanted);
        match scope {
            Scope::Cluster => prop_assert!(opens),
            Scope::Topic { stream, topic, incarnation: known, access } => {
                let inside = namespace(stream.0, topic.0, place.partition().0);
                prop_assert_eq!(scope.permits(inside, (known, incarnation), wanted), access.includes(wanted));
                prop_assert!(!scope.permits(inside, (known ^ 1, known), wanted));
                prop_assert_eq!(opens, inside == place && known == incarnation && access.includes(wanted));
            }
            Scope::Partition { namespace, incarnation: known, access } => {
                prop_assert_eq!(scope.permits(namespace, (incarnation, known), wanted), access.includes(wanted));
                prop_assert!(!scope.permits(namespace, (known, known ^ 1), wanted));
                prop_assert_eq!(opens, namespace == place && known == incarnation && access.includes(wanted));
            }
        }
    }
}

#[test]
fn reading_is_not_writing() {
    assert!(Access::ALL.includes(Access::READ) && Access::ALL.includes(Access::WRITE));
    assert!(Access::READ.includes(Access::READ) && !Access::READ.includes(Access::WRITE));
    assert!(!Access::WRITE.includes(Access::READ) && !Access::WRITE.includes(Access::ALL));
}

#[test]
fn holders_have_names() {
    let mut ticket = Ticket {
        holder: String::new(),
        scope: Scope::Cluster,
        not_after: NOW,
        id: 1,
        issuer: None,
    };
    assert_eq!(ticket.sign(&key()), Err(InvalidHolder));
    ticket.holder = "x".repeat(256);
    assert_eq!(ticket.sign(&key()), Err(InvalidHolder));
    ticket.holder.pop();
    let text = ticket.sign(&key()).expect("the longest");
    assert_eq!(Ticket::verify(&text, &key(), NOW), Ok(ticket));
}

/// The format must not change by accident: services of one cluster may have different releases.
#[test]
fn the_text_format_is_stable() {
    let ticket = Ticket {
        holder: "gateway a".to_owned(),
        scope: Scope::Partition {
            namespace: namespace(1, 2, 3),
            incarnation: 4,
            access: Access::READ,
        },
        not_after: NOW,
        id: 5,
        issuer: Some(Issuer {
            user: UserId(6),
            password_version: 7,
            token: 8,
        }),
    };
    // Signed with another implementation of HMAC.
    let expected = "hrt2.AwEBAAAAAgAAAAMAAAAEAAAAAAAAAADSSWsAAAAABQAAAAAAAAAAAAAAAAAAAAYAAAAHAAAAAAAAAAgAAAAAAAAAZ2F0ZXdheSBhtSLBQ97NJv7XKHSZS5ASIFNno9WYZ7ntoWBiLbXkaPQ";
    assert_eq!(ticket.sign(&key()).as_deref(), Ok(expected));
}

#[test]
fn a_key_is_not_printed() {
    assert_eq!(format!("{:?}", key()), "Key { .. }");
}
