//! Statistics of partitions on other nodes: requests that return them gather them first.

use headrace_catalog::Action;
use headrace_link::Scope;
use headrace_model::UserId;
use headrace_wire::{
    Command, CommandCode,
    command::{Attributes, Path, Permission},
};

use super::Context;
use crate::{
    moment::Moment,
    sessions::{connection::Session, registry::ClientRegistry},
};

/// Return whether the response to a command contains statistics.
pub(crate) fn needs_statistics(code: u32) -> bool {
    CommandCode::try_from(code).is_ok_and(|code| code.attributes().has(Attributes::STATISTICS))
}

/// Partitions whose statistics a request needs. `None` if there are none, or if the user may not see them: no node
/// is asked for a request that will be refused.
pub(crate) fn scope(
    moment: Moment<'_>,
    clients: &ClientRegistry,
    session: &Session,
    user: UserId,
    code: u32,
    payload: &[u8],
) -> Option<Scope> {
    let command = Command::decode(code, payload).ok()?;
    let context = Context::new(moment, clients, session, user);
    let all = |action| context.allow(action).map(|()| Scope::All);
    let stream = |identifier, action: fn(_) -> _| {
        let stream = context.stream(identifier, action)?;
        Ok(Scope::Stream(stream.id))
    };
    let scope = match (command.code().permission(), command.path()) {
        (Permission::Server, None) => all(Action::ReadServers),
        (Permission::StreamsList, None) => all(Action::ListStreams),
        (Permission::StreamRead, Some(Path::Stream(path))) => {
            stream(path.stream, Action::ReadStream)
        }
        (Permission::TopicsList, Some(Path::Stream(path))) => {
            stream(path.stream, Action::ListTopics)
        }
        (Permission::TopicRead, Some(Path::Topic(path))) => {
            let topic = context.topic(path.stream, path.topic, Action::ReadTopic);
            topic.map(|topic| Scope::Topic(topic.stream_id, topic.id))
        }
        (permission, path) => {
            debug_assert!(false, "no scope for {permission:?} with {path:?}");
            return None;
        }
    };
    scope.ok()
}
