//! Rules for granting and revoking rights: a user can change only rights that the user has.

use headrace_model::{StreamId, TopicId, UserId};

use crate::authorise::PREDICATES;
use crate::{Catalog, Permissions};

/// Return whether `grantor` may replace the permissions `before` by `after`.
///
/// Wherever one of them permits an action that the other does not, the grantor must have the same right: taking rights
/// away is a way to lock out a user, as deleting it is. Root may change everything.
pub fn may_grant(
    catalog: &Catalog,
    grantor: UserId,
    before: Option<&Permissions>,
    after: Option<&Permissions>,
) -> bool {
    if grantor == UserId::ROOT {
        return true;
    }
    let nothing = Permissions::default();
    let grantor = catalog
        .user_by_id(grantor)
        .and_then(|user| user.permissions.as_ref())
        .unwrap_or(&nothing);
    let (before, after) = (before.unwrap_or(&nothing), after.unwrap_or(&nothing));
    scopes(before).chain(scopes(after)).all(|(stream, topic)| {
        PREDICATES.iter().all(|any| {
            let is_same =
                before.grant_any(*any, stream, topic) == after.grant_any(*any, stream, topic);
            is_same || grantor.grant_any(*any, stream, topic)
        })
    })
}

/// All scopes for which permissions list rights: the whole server, streams, topics.
fn scopes(
    permissions: &Permissions,
) -> impl Iterator<Item = (Option<StreamId>, Option<TopicId>)> + '_ {
    let streams = permissions.streams.iter().flat_map(|(stream, rights)| {
        let topics = rights
            .topics
            .keys()
            .map(|topic| (Some(*stream), Some(*topic)));
        core::iter::once((Some(*stream), None)).chain(topics)
    });
    core::iter::once((None, None)).chain(streams)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use headrace_proto::catalog::v1;

    use super::*;
    use crate::{GlobalRights, StreamPermissions, StreamRights, TopicRights};

    const ANN: UserId = UserId(5);

    fn catalog(permissions: &Permissions) -> Catalog {
        Catalog::from_snapshot(&v1::Snapshot {
            version: 1,
            users: vec![v1::User {
                id: ANN.0,
                username: "ann".into(),
                status: v1::UserStatus::Active.into(),
                permissions: Some(permissions.to_record()),
                ..Default::default()
            }],
            ..Default::default()
        })
        .expect("a sound snapshot")
    }

    fn global(global: GlobalRights) -> Permissions {
        Permissions {
            global,
            ..Default::default()
        }
    }

    fn stream(id: u32, rights: StreamRights) -> Permissions {
        let rights = StreamPermissions {
            rights,
            topics: BTreeMap::new(),
        };
        Permissions {
            streams: BTreeMap::from([(StreamId(id), rights)]),
            ..Default::default()
        }
    }

    fn topic(rights: TopicRights) -> Permissions {
        let mut permissions = stream(1, StreamRights::NONE);
        for stream in permissions.streams.values_mut() {
            stream.topics.insert(TopicId(2), rights);
        }
        permissions
    }

    /// The right to manage users does not make a user root.
    #[test]
    fn a_grantor_has_what_is_granted() {
        let users = global(GlobalRights::MANAGE_USERS);
        let with = |more: GlobalRights| global(GlobalRights::MANAGE_USERS.or(more));
        let may = |held: &Permissions, after: &Permissions| {
            may_grant(&catalog(held), ANN, None, Some(after))
        };
        assert!(may(&users, &users));
        assert!(may(&users, &global(GlobalRights::READ_USERS)), "it is less");
        assert!(!may(&users, &with(GlobalRights::MANAGE_STREAMS)));
        assert!(!may(&users, &with(GlobalRights::POLL_MESSAGES)));
        assert!(!may(
            &with(GlobalRights::READ_SERVERS),
            &with(GlobalRights::MANAGE_SERVERS)
        ));
        assert!(!may(&users, &stream(1, StreamRights::READ_STREAM)));
        assert!(!may(&users, &topic(TopicRights::POLL_MESSAGES)));
    }

    #[test]
    fn rights_are_given_where_the_grantor_has_them() {
        let held = stream(1, StreamRights::MANAGE_TOPICS);
        let may = |after: &Permissions| may_grant(&catalog(&held), ANN, None, Some(after));
        assert!(may(&topic(TopicRights::MANAGE_TOPIC)));
        assert!(may(&topic(TopicRights::SEND_MESSAGES)));
        assert!(may(&stream(1, StreamRights::SEND_MESSAGES)));
        assert!(!may(&stream(1, StreamRights::MANAGE_STREAM)));
        assert!(!may(&stream(2, StreamRights::SEND_MESSAGES)), "elsewhere");
        assert!(!may(&global(GlobalRights::SEND_MESSAGES)), "everywhere");
        let of_topic = topic(TopicRights::SEND_MESSAGES);
        assert!(!may_grant(
            &catalog(&of_topic),
            ANN,
            None,
            Some(&stream(1, StreamRights::SEND_MESSAGES))
        ));
    }

    #[test]
    fn what_the_grantor_does_not_have_stays_as_it_is() {
        let catalog = catalog(&global(GlobalRights::MANAGE_USERS));
        let more = global(GlobalRights::MANAGE_STREAMS);
        let less = global(GlobalRights::READ_STREAMS);
        assert!(may_grant(&catalog, ANN, Some(&more), Some(&more)));
        assert!(!may_grant(&catalog, ANN, Some(&more), Some(&less)));
        assert!(!may_grant(&catalog, ANN, Some(&more), None));
        let users = global(GlobalRights::READ_USERS);
        assert!(may_grant(&catalog, ANN, Some(&users), None));
        assert!(!may_grant(
            &catalog,
            ANN,
            Some(&topic(TopicRights::POLL_MESSAGES)),
            None
        ));
        assert!(may_grant(&catalog, ANN, None, None));
        assert!(!may_grant(&catalog, ANN, Some(&less), Some(&more)));
        assert!(may_grant(&catalog, UserId::ROOT, None, Some(&more)));
        assert!(!may_grant(&catalog, UserId(9), None, Some(&less)));
    }
}
