//! Figures of partitions that are elsewhere: requests that show them ask for them first.

use headrace_buffer::Slice;
use headrace_link::Scope;
use headrace_model::StreamId;
use headrace_wire::{Command, CommandCode, Identifier, Status};

use super::{Outcome, control_request, topic_of};
use crate::{
    Shard,
    api::{ConnectionKey, Effect, Origin},
    config::Hosting,
    connection::{Pipeline, Session, status_response},
    links::Moment,
};

/// Whether the answer to a command shows figures.
fn shows_figures(code: u32) -> bool {
    matches!(
        CommandCode::try_from(code),
        Ok(CommandCode::GetStats
            | CommandCode::GetStream
            | CommandCode::GetStreams
            | CommandCode::GetTopic
            | CommandCode::GetTopics)
    )
}

impl Shard {
    /// Have the figures brought that a request wants to show. `false`: it wants none, or they are here.
    pub(super) fn gather(
        &mut self,
        (key, session, pipeline): (ConnectionKey, &Session, &mut Pipeline),
        code: u32,
        payload: &[u8],
        effects: &mut Vec<Effect>,
    ) -> bool {
        if self.config.hosting != Hosting::Nothing || !shows_figures(code) {
            return false;
        }
        // Who may not ask, or asks for what does not exist, is told so at once.
        if self.current_user(session).is_none() {
            return false;
        }
        let Some(scope) = self.scope(code, payload) else {
            return false;
        };
        let origin = Origin {
            shard: self.config.shard,
            connection: key,
            sequence: pipeline.begin_alone(),
            member: None,
            trace: None,
        };
        let moment = Moment {
            catalog: self.catalog.load(),
            now: self.now,
        };
        let request = (code, payload.into());
        self.links.gather(moment, origin, scope, request, effects);
        true
    }

    fn scope(&mut self, code: u32, payload: &[u8]) -> Option<Scope> {
        let catalog = self.catalog.load();
        let stream = |identifier: Identifier<'_>| match identifier {
            Identifier::Numeric(id) => catalog.stream_by_id(StreamId(id)),
            Identifier::Named(name) => catalog.stream_by_name(name),
        };
        match Command::decode(code, payload).ok()? {
            Command::GetStats | Command::GetStreams => Some(Scope::Everything),
            Command::GetStream(path) | Command::GetTopics(path) => {
                Some(Scope::Stream(stream(path.stream)?.id))
            }
            Command::GetTopic(path) => {
                let topic = topic_of(stream(path.stream)?, path.topic)?;
                Some(Scope::Topic(topic.stream_id, topic.id))
            }
            _ => None,
        }
    }

    /// The figures have come, or were waited for long enough: answer the request.
    pub(crate) fn figures_gathered(
        &mut self,
        origin: Origin,
        (code, payload): (u32, &[u8]),
        effects: &mut Vec<Effect>,
    ) {
        let Some(mut connection) = self.take_connection(origin.connection) else {
            return;
        };
        let session = &mut connection.session;
        let outcome = Command::decode(code, payload).and_then(|command| {
            let outcome = self.handle(session, &command)?;
            Ok(outcome)
        });
        let mut answer = |response: Slice| {
            connection.pipeline.answer_one(origin.sequence, response);
        };
        match outcome {
            Err(status) => answer(status_response(status)),
            Ok(Outcome::Respond(response)) => answer(response),
            // It was deleted while its figures were on their way.
            Ok(Outcome::Missing) => answer(status_response(Status::OK)),
            Ok(Outcome::Control(operation)) => effects.push(Effect::Control {
                origin,
                request: control_request(session, operation),
            }),
            Ok(_) => debug_assert!(false, "nothing that shows figures asks a partition"),
        }
        self.put_connection(connection);
        self.touch(origin.connection);
    }
}
