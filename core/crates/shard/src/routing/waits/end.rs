//! End of waits without an answer of a partition, and review of waits after a catalog change.

use headrace_catalog::Changes;
use headrace_link::EndWait;
use headrace_model::Namespace;
use headrace_wire::{Command, CommandCode, Status};

use super::{Phase, Wait, Waiting};
use crate::{
    api::Effect,
    calls::{ConnectionKey, Sequence},
    dispatch::{Plan, waits::plan_wait},
    sessions::connection::{Pipeline, TICKET_HOLDER, nothing_polled, status_response},
};

impl Waiting<'_> {
    /// Answer waiting requests whose deadline has passed.
    pub(crate) fn end_due_waits(&mut self, effects: &mut Vec<Effect>) {
        while let Some((deadline, key)) = self.waits.deadlines.first().copied()
            && deadline <= self.ways.moment.now
        {
            self.wait_is_due(key, effects);
        }
    }

    /// End all waits for shutdown.
    pub(crate) fn end_all_waits(&mut self, effects: &mut Vec<Effect>) {
        for key in self.waits.keys() {
            self.wait_is_due(key, effects);
        }
    }

    fn wait_is_due(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        let Some(mut wait) = self.waits.take(key) else {
            return;
        };
        wait.is_due = true;
        match wait.phase {
            Phase::Nowhere => {
                self.end_wait(key, wait.sequence, |pipeline, sequence| {
                    let response = nothing_polled(pipeline.names_gaps(sequence));
                    pipeline.answer_one(sequence, response);
                });
                return;
            }
            Phase::Parked => {
                let origin = wait.origin(self.ways.moment, key);
                self.stop(origin, wait.plan.places[0], EndWait::Take, effects);
            }
            // The partition may not be open, or its node may hang.
            Phase::Trying { place, .. } if wait.plan.places.len() == 1 => {
                let origin = wait.origin(self.ways.moment, key);
                self.stop(origin, place, EndWait::Take, effects);
            }
            Phase::Notified => {
                self.disarm(key, &wait, effects);
                return self.take_from(key, wait, 0, effects);
            }
            // Polls in flight, and those that wait for room, run to completion.
            Phase::Trying { .. } | Phase::Taking { .. } | Phase::Claiming { .. } => {}
        }
        self.waits.insert(key, wait);
    }

    /// Apply a new catalog: end waits whose user lost the permission, and plan those anew whose partitions have moved.
    pub(crate) fn review_waits(&mut self, changes: &Changes, effects: &mut Vec<Effect>) {
        // Only few waits are affected: making a plan costs far more than this check.
        let touched: Vec<ConnectionKey> = (self.waits.by_connection.iter())
            .filter(|(_, wait)| {
                let (stream, topic) = wait.plan.topic;
                // The holder of a ticket waits on behalf of the ticket's issuer.
                let is_users = changes.has_user(wait.plan.user)
                    || (wait.plan.user == TICKET_HOLDER && changes.has_users());
                changes.has_topic(stream, topic) || is_users
            })
            .map(|(key, _)| *key)
            .collect();
        for key in touched {
            let Some(mut wait) = self.waits.take(key) else {
                continue;
            };
            if wait.is_void || self.plan_again(key, &wait).as_ref() == Some(&Ok(wait.plan.clone()))
            {
                self.waits.insert(key, wait);
                continue;
            }
            match wait.phase {
                Phase::Parked => {
                    let origin = wait.origin(self.ways.moment, key);
                    self.stop(origin, wait.plan.places[0], EndWait::Refuse, effects);
                    wait.is_void = true;
                }
                Phase::Trying { .. } | Phase::Taking { .. } | Phase::Claiming { .. } => {
                    wait.is_void = true;
                }
                Phase::Notified | Phase::Nowhere => {
                    self.wait_anew(key, wait, None, effects);
                    continue;
                }
            }
            self.waits.insert(key, wait);
        }
    }

    /// Plan a waiting request anew. Returns `None` if its connection is closed.
    fn plan_again(&mut self, key: ConnectionKey, wait: &Wait) -> Option<Result<Plan, Status>> {
        let command = Command::decode(CommandCode::WaitMessages.code(), &wait.request);
        let Ok(Command::WaitMessages(request)) = command else {
            return None;
        };
        let connection = self.sessions.take(key)?;
        let plan = plan_wait(
            self.ways.moment,
            self.sessions.clients(),
            &connection.session,
            &request,
        );
        self.sessions.put(connection);
        Some(plan)
    }

    /// Continue a request whose plan is void: wait with a new plan, or answer if the new plan is empty or refused.
    ///
    /// `lost` is a partition that reports that the request's member does not own it, whatever the local catalog says.
    pub(super) fn wait_anew(
        &mut self,
        key: ConnectionKey,
        mut wait: Box<Wait>,
        lost: Option<Namespace>,
        effects: &mut Vec<Effect>,
    ) {
        self.disarm(key, &wait, effects);
        let refused = match self.plan_again(key, &wait) {
            None => return,
            Some(Err(status)) => Some(Some(status)),
            // The member named a partition and has lost it.
            Some(Ok(plan)) if plan.is_named && plan.places.is_empty() && wait.had_place => {
                Some(None)
            }
            Some(Ok(mut plan)) => {
                plan.places.retain(|place| Some(*place) != lost);
                wait.plan = plan;
                None
            }
        };
        let is_over = wait.is_due && wait.plan.places.is_empty();
        if let Some(refused) = refused.or_else(|| is_over.then_some(None)) {
            return self.end_wait(key, wait.sequence, |pipeline, sequence| {
                let response = match refused {
                    Some(status) => status_response(status),
                    None => nothing_polled(pipeline.names_gaps(sequence)),
                };
                pipeline.answer_one(sequence, response);
            });
        }
        self.enter(key, &mut wait, effects);
        self.waits.insert(key, wait);
    }

    /// End a wait after the WebSocket was closed by its peer: the messages are not wanted and no offset is stored.
    pub(crate) fn cancel_wait(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        if let Some(wait) = self.waits.by_connection.get(&key) {
            let sequence = wait.sequence;
            self.forget_wait(key, effects);
            self.end_wait(key, sequence, |pipeline, sequence| {
                let response = nothing_polled(pipeline.names_gaps(sequence));
                pipeline.answer_one(sequence, response);
            });
        }
    }

    /// Remove the wait of a closed connection.
    pub(crate) fn forget_wait(&mut self, key: ConnectionKey, effects: &mut Vec<Effect>) {
        let Some(wait) = self.waits.take(key) else {
            return;
        };
        if matches!(wait.phase, Phase::Parked) {
            let origin = wait.origin(self.ways.moment, key);
            self.stop(origin, wait.plan.places[0], EndWait::Refuse, effects);
        }
        self.disarm(key, &wait, effects);
    }

    pub(super) fn end_wait(
        &mut self,
        key: ConnectionKey,
        sequence: Sequence,
        answer: impl FnOnce(&mut Pipeline, Sequence),
    ) {
        let now = self.ways.moment.now;
        if let Some(connection) = self.sessions.get_mut(key) {
            answer(&mut connection.pipeline, sequence);
            connection.session.last_heartbeat = now;
            self.sessions.touch(key);
        }
    }
}
