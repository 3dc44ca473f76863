//! Explanations of refusals, for connections that have asked for them: which object the request names, and which
//! permission its user lacks, with the command that grants it.
//!
//! Objects are named as the request names them: to users without permission an object that exists looks like one that
//! does not.

use std::borrow::Cow;

use headrace_catalog::{Action, authorise};
use headrace_link::Refusal;
use headrace_model::{Namespace, StreamId, TopicId, UserId};
use headrace_partition::{PartitionError, Response};
use headrace_wire::{
    Command, Identifier, Status,
    command::{Permission, Target},
};

use super::lookups::{LookedUp, NO_STREAM, NO_TOPIC, find_stream, stream_number};
use crate::{
    moment::Moment,
    sessions::connection::{Requester, TICKET_HOLDER, explained_response},
};

/// Limit of the protocol.
const BYTES_MAX: usize = 1024;

const OFFSET_OF_ANOTHER_USER: &str = "the offset that is stored under this name of a consumer is another user's: \
     take another name or a group, or change it with manage_topic";

/// Answer a request with a refusal, and explain it if the client has asked for that.
pub(crate) fn refuse(
    moment: Moment<'_>,
    requester: &mut Requester<'_>,
    code: u32,
    payload: &[u8],
    status: Status,
) {
    let explanation = if requester.pipeline.explains() {
        let user = requester.session.current_user(moment);
        explain_refusal(moment, user, code, payload, status)
    } else {
        None
    };
    let response = explained_response(status, explanation.as_deref());
    requester.pipeline.respond(response);
}

/// Explain why a request of a user is refused, if there is more to say than the status does.
pub(crate) fn explain_refusal(
    moment: Moment<'_>,
    user: Option<UserId>,
    code: u32,
    payload: &[u8],
    status: Status,
) -> Option<String> {
    let command = Command::decode(code, payload).ok()?;
    let place = place_of(&command);
    let text = match status {
        Status::UNAUTHORIZED => missing_permission(moment, user?, &command, place),
        Status::STREAM_ID_NOT_FOUND | Status::TOPIC_ID_NOT_FOUND => {
            missing_object(moment, place, status)
        }
        _ => None,
    };
    text.map(shortened)
}

/// Explanatory text of a refusal, for connections that have asked for it.
pub(crate) fn explanation(
    moment: Moment<'_>,
    namespace: Namespace,
    result: &Result<Response, Refusal>,
) -> Option<String> {
    match result {
        Err(Refusal::Unavailable) => {}
        Err(Refusal::Partition(PartitionError::OffsetOfAnotherUser)) => {
            return Some(OFFSET_OF_ANOTHER_USER.to_owned());
        }
        _ => return None,
    }
    let catalog = moment.catalog;
    let stream = catalog.stream_by_id(namespace.stream())?;
    let topic = stream.topic_by_id(namespace.topic())?;
    let partition = namespace.partition();
    let place = format!(
        "partition {partition} of topic {:?} in stream {:?}",
        topic.name, stream.name
    );
    Some(match catalog.leader(namespace) {
        None => format!("{place} is placed on no node"),
        Some(node) if node.is_live => {
            format!("{place} is on node {:?}, which is not reached", node.name)
        }
        Some(node) => format!(
            "{place} is on node {:?}, which is not reached: the cluster does not hear from it",
            node.name
        ),
    })
}

pub(crate) fn missing_object(
    moment: Moment<'_>,
    place: Target<'_>,
    status: Status,
) -> Option<String> {
    let catalog = moment.catalog;
    let (stream, topic) = (place.0?, place.1);
    if status == Status::STREAM_ID_NOT_FOUND {
        return find_stream(catalog, stream)
            .is_none()
            .then(|| format!("there is no stream {}", quoted(stream)));
    }
    let topic = topic?;
    // The status also means a topic without partitions.
    LookedUp::new(catalog, stream, topic)
        .found
        .is_err()
        .then(|| {
            format!(
                "there is no topic {} in stream {}",
                quoted(topic),
                quoted(stream)
            )
        })
}

pub(crate) fn missing_permission(
    moment: Moment<'_>,
    user: UserId,
    command: &Command<'_>,
    (stream, topic): Target<'_>,
) -> Option<String> {
    if user == TICKET_HOLDER {
        return Some(format!(
            "the ticket does not permit {}",
            command.code().name()
        ));
    }
    let catalog = moment.catalog;
    let username = &catalog.user_by_id(user)?.username;
    let (stream_id, topic_id) = match (stream, topic) {
        (Some(stream), Some(topic)) => {
            let found = LookedUp::new(catalog, stream, topic);
            (found.stream, found.topic)
        }
        (Some(stream), None) => {
            let found = find_stream(catalog, stream);
            (stream_number(stream, found), NO_TOPIC)
        }
        _ => (NO_STREAM, NO_TOPIC),
    };
    let mut needed = needed_for(command, stream_id, topic_id).into_iter();
    let Some((right, _)) = needed.find(|(_, action)| !authorise(catalog, user, *action)) else {
        let permission = command.code().permission();
        let is_about_users = matches!(
            permission,
            Permission::UsersManage | Permission::UsersManageOrOneself
        );
        return is_about_users.then(|| {
            format!(
                "{username} may only change users whose rights it has itself, and grant rights that it has itself"
            )
        });
    };
    let (place, options) = match (stream, topic) {
        (Some(stream), Some(topic)) => (
            format!("{}/{}", argument(stream), argument(topic)),
            format!(" --stream {} --topic {}", argument(stream), argument(topic)),
        ),
        (Some(stream), None) => (
            format!("stream {}", argument(stream)),
            format!(" --stream {}", argument(stream)),
        ),
        _ => ("the server".to_owned(), String::new()),
    };
    let username = shell_quoted(username);
    Some(format!(
        "{username} lacks {right} on {place}: headrace user grant {username} {right}{options}"
    ))
}

/// Return the narrowest rights that permit a command, each with its action. All of them are needed.
fn needed_for(
    command: &Command<'_>,
    stream: StreamId,
    topic: TopicId,
) -> Vec<(&'static str, Action)> {
    let poll = ("poll_messages", Action::Poll(stream, topic));
    let send = ("send_messages", Action::Send(stream, topic));
    match command.code().permission() {
        Permission::None | Permission::Login => Vec::new(),
        Permission::Server => vec![("read_servers", Action::ReadServers)],
        Permission::ServerManage => vec![("manage_servers", Action::ManageServers)],
        Permission::UsersRead | Permission::UsersReadOrOneself => {
            vec![("read_users", Action::ReadUsers)]
        }
        Permission::UsersManage | Permission::UsersManageOrOneself => {
            vec![("manage_users", Action::ManageUsers)]
        }
        Permission::StreamsList => vec![("read_streams", Action::ListStreams)],
        Permission::StreamCreate => vec![("manage_streams", Action::CreateStream)],
        Permission::StreamRead => vec![("read_stream", Action::ReadStream(stream))],
        Permission::StreamManage => vec![("manage_stream", Action::ManageStream(stream))],
        Permission::TopicsList => vec![("read_topics", Action::ListTopics(stream))],
        Permission::TopicCreate => vec![("manage_topics", Action::CreateTopic(stream))],
        Permission::TopicRead => vec![("read_topic", Action::ReadTopic(stream, topic))],
        Permission::TopicManage | Permission::TopicManageOrOwner => {
            vec![("manage_topic", Action::ManageTopic(stream, topic))]
        }
        Permission::Poll => vec![poll],
        Permission::Send => vec![send],
        Permission::PollOrSend => match command {
            Command::IssueTicket(request) => [(request.read, poll), (request.write, send)]
                .into_iter()
                .filter_map(|(is_wanted, needed)| is_wanted.then_some(needed))
                .collect(),
            _ => Vec::new(),
        },
    }
}

/// Return stream and topic that a command names. One that watches several topics names the first of them.
fn place_of<'a>(command: &Command<'a>) -> Target<'a> {
    match command {
        Command::WatchPartitions(request) => (request.topics.first())
            .map_or((None, None), |watched| {
                (Some(watched.stream), Some(watched.topic))
            }),
        command => command.target(),
    }
}

/// A name in quotation marks, an id without.
fn quoted(identifier: Identifier<'_>) -> String {
    match identifier {
        Identifier::Numeric(id) => id.to_string(),
        Identifier::Named(name) => format!("'{}'", name.escape_debug()),
    }
}

/// An argument of the command line, which looks up digits as an id first.
fn argument(identifier: Identifier<'_>) -> String {
    match identifier {
        Identifier::Numeric(id) => id.to_string(),
        Identifier::Named(name) => {
            let is_ambiguous = name.bytes().all(|byte| byte.is_ascii_digit())
                || name.starts_with("id:")
                || name.starts_with("name:");
            let prefix = if is_ambiguous { "name:" } else { "" };
            shell_quoted(&format!("{prefix}{name}")).into_owned()
        }
    }
}

fn shell_quoted(text: &str) -> Cow<'_, str> {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "@%+=:,./-_".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    // No control character reaches the terminal of who reads this.
    let printable: String = text
        .chars()
        .map(|character| {
            if character.is_control() {
                '?'
            } else {
                character
            }
        })
        .collect();
    Cow::Owned(format!("'{}'", printable.replace('\'', r#"'"'"'"#)))
}

fn shortened(mut text: String) -> String {
    if text.len() > BYTES_MAX {
        let end = (0..=BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
    text
}
