//! Statistics of partitions on other nodes: requests that return them gather them first.

use std::sync::Arc;

use headrace_buffer::Slice;
use headrace_catalog::Action;
use headrace_link::Scope;
use headrace_model::UserId;
use headrace_wire::{
    Command, CommandCode, Status,
    command::{Attributes, Path, Permission},
};

use super::{Context, Outcome, control_request};
use crate::{
    Shard,
    api::{Effect, Origin},
    config::Hosting,
    routing::links::Moment,
    sessions::connection::{Requester, Session, explained_response, status_response},
};

/// Return whether the response to a command contains statistics.
fn needs_statistics(code: u32) -> bool {
    CommandCode::try_from(code).is_ok_and(|code| code.attributes().has(Attributes::STATISTICS))
}

impl Shard {
    /// Gather the statistics that a request needs. Returns false if it needs none, or if all partitions are local.
    pub(super) fn gather(
        &mut self,
        requester: &mut Requester<'_>,
        code: u32,
        payload: &[u8],
        effects: &mut Vec<Effect>,
    ) -> bool {
        if self.config.hosting != Hosting::Nothing || !needs_statistics(code) {
            return false;
        }
        let Some(user) = self.current_user(requester.session) else {
            return false;
        };
        let Some(scope) = self.scope(requester.session, user, code, payload) else {
            return false;
        };
        let origin = Origin {
            trace: None,
            ..requester.begin_alone()
        };
        let moment = Moment {
            catalog: self.catalog.load(),
            now: self.now,
        };
        let request = (code, payload.into());
        self.routing
            .links
            .gather(moment, origin, scope, request, effects);
        true
    }

    /// Partitions whose statistics a request needs. `None` if there are none, or if the user may not see them: no node
    /// is asked for a request that will be refused.
    fn scope(
        &mut self,
        session: &Session,
        user: UserId,
        code: u32,
        payload: &[u8],
    ) -> Option<Scope> {
        let command = Command::decode(code, payload).ok()?;
        let catalog = Arc::clone(self.catalog.load());
        let context = Context::new(self, &catalog, session, user);
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

    /// Answer a request after its statistics were gathered, or after the timeout.
    pub(crate) fn statistics_gathered(
        &mut self,
        origin: Origin,
        code: u32,
        payload: &[u8],
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut connection) = self.sessions.take(origin.connection) else {
            return;
        };
        let session = &mut connection.session;
        let outcome = Command::decode(code, payload).and_then(|command| {
            let outcome = self.handle(session, &command)?;
            Ok(outcome)
        });
        let explanation = match &outcome {
            Err(status) if connection.pipeline.explains() => {
                let user = self.current_user(session);
                self.explain_refusal(user, code, payload, *status)
            }
            _ => None,
        };
        let mut answer = |response: Slice| {
            connection.pipeline.answer_one(origin.sequence, response);
        };
        match outcome {
            Err(status) => answer(explained_response(status, explanation.as_deref())),
            Ok(Outcome::Respond(response)) => answer(response),
            // The entity was deleted while its statistics were gathered.
            Ok(Outcome::Missing) => answer(status_response(Status::OK)),
            Ok(Outcome::Control(operation)) => effects.push(Effect::Control {
                origin,
                request: control_request(session, operation),
            }),
            Ok(_) => debug_assert!(false, "nothing that shows statistics asks a partition"),
        }
        self.sessions.put(connection);
        self.sessions.touch(origin.connection);
    }
}
