//! Requests of this shard's connections that wait for messages (GW-7).
//!
//! A request that waits for one partition is parked there and answered from there. One of a group's member that waits
//! for any of its partitions must not be given messages by two: it is told where there are some, and then polls there.
//! Its connection's shard holds the deadline, and decides anew when the catalogue changes: what the request may see
//! and where it belongs is what the catalogue says when it is answered, not when it was sent.

mod end;

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_link::{Refusal, StopWaiting, WhenReady};
use headrace_model::{Namespace, Timestamp};
use headrace_partition::{Poll, Response};
use headrace_wire::{Status, message::HEADER_BYTES};

use crate::{
    Shard,
    api::{ConnectionKey, Effect, Mail, Origin},
    connection::{Pipeline, Sequence, Session, status_response},
    dispatch::{Plan, encode_partition_answer, nothing_polled},
    members::find_member,
};

/// One request that waits.
struct Wait {
    sequence: Sequence,
    deadline: Timestamp,
    /// The deadline has come: what there is will do.
    is_due: bool,
    /// The payload of the request, from which the plan is made anew.
    request: Box<[u8]>,
    plan: Plan,
    phase: Phase,
    /// The plan is void. A poll that may have found something is under way, and has to be waited for.
    is_void: bool,
    /// It has waited at some partition.
    had_place: bool,
}

enum Phase {
    /// There is no partition to wait at.
    Nowhere,
    /// Parked at the only partition, which answers.
    Parked,
    /// All partitions are asked to tell when there is something.
    Told,
    /// One partition is polled.
    Trying {
        place: Namespace,
        /// All others are asked to tell.
        is_armed: bool,
        /// Those that told meanwhile.
        ready: Vec<Namespace>,
    },
    /// The time is up: one partition after the other is polled until one has something.
    Taking { place: usize },
}

impl Wait {
    fn origin(&self, shard: &Shard, key: ConnectionKey) -> Origin {
        Origin {
            trace: None,
            shard: shard.config.shard,
            connection: key,
            sequence: self.sequence,
            member: self.plan.member,
        }
    }

    fn cost(&self) -> usize {
        cost(&self.plan)
    }

    /// Whether a poll is under way, and not at this partition.
    fn is_polled_elsewhere(&self, namespace: Namespace) -> bool {
        let polled = match self.phase {
            Phase::Trying { place, .. } => Some(place),
            Phase::Taking { place } => self.plan.places.get(place).copied(),
            Phase::Nowhere | Phase::Parked | Phase::Told => None,
        };
        polled.is_some_and(|place| place != namespace)
    }

    /// A partition is to be polled after the one that is being tried.
    fn note_ready(&mut self, namespace: Namespace) {
        if let Phase::Trying { ready, .. } = &mut self.phase
            && self.plan.places.contains(&namespace)
            && !ready.contains(&namespace)
        {
            ready.push(namespace);
        }
    }
}

/// What a plan takes of the bound of all that may be waited for.
fn cost(plan: &Plan) -> usize {
    plan.places.len().max(1)
}

/// All of them, by connection: each has at most one.
#[derive(Default)]
pub(crate) struct Waits {
    by_connection: HashMap<ConnectionKey, Box<Wait>, FixedState>,
    deadlines: BTreeSet<(Timestamp, ConnectionKey)>,
    cost: usize,
}

impl Waits {
    /// What they take of the bound of all that may be waited for.
    pub(crate) fn cost(&self) -> usize {
        self.cost
    }

    /// When the first of them has waited long enough.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn has(&self, key: ConnectionKey) -> bool {
        self.by_connection.contains_key(&key)
    }

    /// Whether an answer is one to a request that waits.
    pub(crate) fn has_asked(&self, origin: &Origin) -> bool {
        let found = self.by_connection.get(&origin.connection);
        found.is_some_and(|wait| wait.sequence == origin.sequence)
    }

    fn insert(&mut self, key: ConnectionKey, wait: Box<Wait>) {
        self.cost += wait.cost();
        if !wait.is_due {
            self.deadlines.insert((wait.deadline, key));
        }
        self.by_connection.insert(key, wait);
    }

    fn take(&mut self, key: ConnectionKey) -> Option<Box<Wait>> {
        let wait = self.by_connection.remove(&key)?;
        self.cost -= wait.cost();
        self.deadlines.remove(&(wait.deadline, key));
        Some(wait)
    }

    fn keys(&self) -> Vec<ConnectionKey> {
        self.by_connection.keys().copied().collect()
    }
}

/// What an answer leads to.
enum Step {
    /// Nothing: it is to a question of a plan that was given up.
    Ignore,
    /// The plan is void: make another.
    Anew,
    /// The time is up: poll from this place of the plan on.
    Take { place: usize },
    /// Wait until a partition tells that there is something.
    Wait,
    /// It is the answer to the request.
    Answer,
}

fn next_step(wait: &Wait, result: &Result<Response, Refusal>) -> Step {
    let has_nothing = match result {
        Ok(Response::Polled(polled)) => polled.messages_count == 0 && wait.plan.poll.count > 0,
        Err(Refusal::NotReady | Refusal::NothingAssigned) => true,
        _ => false,
    };
    match (&wait.phase, result) {
        (Phase::Told | Phase::Nowhere, _) => Step::Ignore,
        // The catalogue says what has become of it.
        (_, Err(Refusal::NotFound)) | (Phase::Parked, Err(Refusal::NotReady)) => Step::Anew,
        (Phase::Parked, Err(Refusal::NothingAssigned)) if !wait.plan.is_named => Step::Anew,
        (Phase::Trying { .. } | Phase::Taking { .. }, _) if has_nothing && wait.is_void => {
            Step::Anew
        }
        (Phase::Trying { .. }, _) if has_nothing && wait.is_due => Step::Take { place: 0 },
        (Phase::Trying { .. }, _) if has_nothing => Step::Wait,
        (Phase::Taking { place }, _) if has_nothing => Step::Take { place: place + 1 },
        _ => Step::Answer,
    }
}

impl Shard {
    /// A request that may wait was let in.
    pub(crate) fn begin_wait(
        &mut self,
        (key, session, pipeline): (ConnectionKey, &mut Session, &mut Pipeline),
        plan: Plan,
        micros: u64,
        request: &[u8],
        effects: &mut Vec<Effect>,
    ) {
        let waited_for = self.waits.cost + self.watches.cost();
        if waited_for + cost(&plan) > self.config.waited_partitions_max {
            return pipeline.respond(status_response(Status::TOO_MANY_WAITS));
        }
        // As long as it waits it cannot say that it is alive.
        session.last_heartbeat = self.now;
        let micros = micros.min(self.config.wait_micros_max);
        let mut wait = Box::new(Wait {
            sequence: pipeline.begin_alone(),
            deadline: Timestamp(self.now.0.saturating_add(micros)),
            is_due: false,
            request: request.into(),
            plan,
            phase: Phase::Nowhere,
            is_void: false,
            had_place: false,
        });
        self.enter(key, &mut wait, effects);
        self.waits.insert(key, wait);
    }

    /// Go and wait as planned.
    fn enter(&mut self, key: ConnectionKey, wait: &mut Wait, effects: &mut Vec<Effect>) {
        wait.is_void = false;
        wait.had_place |= !wait.plan.places.is_empty();
        match wait.plan.places[..] {
            [] => wait.phase = Phase::Nowhere,
            [place] => {
                wait.phase = Phase::Parked;
                self.ask(key, wait, place, WhenReady::Answer, effects);
            }
            [first, ..] => {
                let catalog = self.catalog.load();
                // One after the other begins, so that none is left behind by those that always have something.
                let turn = wait
                    .plan
                    .member
                    .and_then(|membership| find_member(membership, catalog, first)?.next_turn());
                let found = wait.plan.places.iter().copied();
                let place = found
                    .clone()
                    .find(|place| Some(place.partition()) == turn)
                    .unwrap_or(first);
                self.try_place(key, wait, place, false, Vec::new(), effects);
            }
        }
    }

    fn try_place(
        &mut self,
        key: ConnectionKey,
        wait: &mut Wait,
        place: Namespace,
        is_armed: bool,
        ready: Vec<Namespace>,
        effects: &mut Vec<Effect>,
    ) {
        wait.phase = Phase::Trying {
            place,
            is_armed,
            ready,
        };
        self.ask(key, wait, place, WhenReady::AtOnce, effects);
    }

    /// Have a partition look, or wait.
    fn ask(
        &mut self,
        key: ConnectionKey,
        wait: &Wait,
        namespace: Namespace,
        when_ready: WhenReady,
        effects: &mut Vec<Effect>,
    ) {
        let origin = wait.origin(self, key);
        let poll = Poll {
            minimum_bytes: if wait.is_due {
                0
            } else {
                wait.plan.poll.minimum_bytes
            },
            ..wait.plan.poll
        };
        let owner = self.owner(namespace);
        let mail = Mail::Wait {
            origin,
            namespace,
            poll,
            when_ready,
        };
        self.hand_over(owner, mail, effects);
    }

    fn stop(
        &mut self,
        origin: Origin,
        namespace: Namespace,
        stop: StopWaiting,
        effects: &mut Vec<Effect>,
    ) {
        let owner = self.owner(namespace);
        let mail = Mail::StopWaiting {
            origin,
            namespace,
            stop,
        };
        self.hand_over(owner, mail, effects);
    }

    /// No partition has to tell any more.
    fn disarm(&mut self, key: ConnectionKey, wait: &Wait, effects: &mut Vec<Effect>) {
        let except = match wait.phase {
            Phase::Told => None,
            Phase::Trying {
                place,
                is_armed: true,
                ..
            } => Some(place),
            _ => return,
        };
        let origin = wait.origin(self, key);
        for place in &wait.plan.places {
            if Some(*place) != except {
                self.stop(origin, *place, StopWaiting::Disarm, effects);
            }
        }
    }

    /// A partition has answered a request that waits.
    pub(crate) fn wait_answered(
        &mut self,
        origin: Origin,
        namespace: Namespace,
        result: Result<Response, Refusal>,
        effects: &mut Vec<Effect>,
    ) {
        let key = origin.connection;
        let Some(mut wait) = self.waits.take(key) else {
            return;
        };
        if wait.is_polled_elsewhere(namespace) {
            // It was to tell when there is something, and cannot: whoever polls there next hears why.
            wait.note_ready(namespace);
            return self.waits.insert(key, wait);
        }
        match next_step(&wait, &result) {
            Step::Ignore => return self.waits.insert(key, wait),
            Step::Anew => {
                let lost = matches!(result, Err(Refusal::NothingAssigned)).then_some(namespace);
                return self.wait_anew(key, wait, lost, effects);
            }
            Step::Take { place } => {
                self.disarm(key, &wait, effects);
                return self.take_from(key, wait, place, effects);
            }
            Step::Wait => {
                let is_lost = matches!(result, Err(Refusal::NothingAssigned));
                self.wait_on(key, &mut wait, is_lost, effects);
                return self.waits.insert(key, wait);
            }
            Step::Answer => self.disarm(key, &wait, effects),
        }
        if let (Some(member), false) = (wait.plan.member, wait.plan.is_named) {
            let member = find_member(member, self.catalog.load(), namespace);
            if let Some(member) = member {
                member.took_turn(namespace.partition());
            }
        }
        let explanation = self.explanation(namespace, &result);
        self.end_wait(key, wait.sequence, |pipeline, sequence| {
            let explanation = explanation.as_deref();
            encode_partition_answer(pipeline, sequence, namespace, result, explanation);
        });
        if wait.plan.places.len() == 1 {
            self.follow_wait(key, namespace);
        }
    }

    /// Count a request that has waited: its connection may leave for where it did. It could not before, because one that
    /// is about to leave is not read from, and it would not be noticed that its client is gone.
    fn follow_wait(&mut self, key: ConnectionKey, namespace: Namespace) {
        let home = self.config.shard;
        let shard = self.owner(namespace).shard_for(home);
        if let Some(connection) = self.connection_mut(key)
            && connection.session.affinity.count(shard, home)
        {
            connection.moving_to = Some(shard);
        }
    }

    /// The partition that was tried had nothing: be told by it, and by all if they are not asked yet. Meanwhile try
    /// another that has told.
    fn wait_on(
        &mut self,
        key: ConnectionKey,
        wait: &mut Wait,
        is_lost: bool,
        effects: &mut Vec<Effect>,
    ) {
        let phase = core::mem::replace(&mut wait.phase, Phase::Told);
        let Phase::Trying {
            place,
            is_armed,
            mut ready,
        } = phase
        else {
            return;
        };
        let places = if is_armed {
            vec![place]
        } else {
            wait.plan.places.clone()
        };
        for other in places {
            // Who does not own it any more is not told: the catalogue brings another plan.
            if !(is_lost && other == place) {
                self.ask(key, wait, other, WhenReady::Tell, effects);
            }
        }
        if let Some(next) = ready.pop() {
            self.try_place(key, wait, next, true, ready, effects);
        }
    }

    /// The time is up: from this place of the plan on, poll until there is something.
    fn take_from(
        &mut self,
        key: ConnectionKey,
        mut wait: Box<Wait>,
        place: usize,
        effects: &mut Vec<Effect>,
    ) {
        // A partition that has told nothing has less than the minimum, and for a small one that is nothing.
        let is_small = (wait.plan.poll.minimum_bytes as usize) <= HEADER_BYTES;
        let nobody_told = matches!(wait.phase, Phase::Told);
        let place_left = wait.plan.places.get(place).copied();
        let Some(namespace) = place_left.filter(|_| !(is_small && nobody_told)) else {
            return self.end_wait(key, wait.sequence, |pipeline, sequence| {
                let response = nothing_polled(pipeline, sequence);
                pipeline.answer_one(sequence, response);
            });
        };
        wait.phase = Phase::Taking { place };
        self.ask(key, &wait, namespace, WhenReady::AtOnce, effects);
        self.waits.insert(key, wait);
    }

    /// A partition tells that there is enough.
    pub(crate) fn wait_told(
        &mut self,
        origin: Origin,
        namespace: Namespace,
        effects: &mut Vec<Effect>,
    ) {
        let key = origin.connection;
        if !self.waits.has_asked(&origin) {
            return;
        }
        let Some(mut wait) = self.waits.take(key) else {
            return;
        };
        if matches!(wait.phase, Phase::Told) && wait.plan.places.contains(&namespace) {
            self.try_place(key, &mut wait, namespace, true, Vec::new(), effects);
        } else {
            wait.note_ready(namespace);
        }
        self.waits.insert(key, wait);
    }
}
