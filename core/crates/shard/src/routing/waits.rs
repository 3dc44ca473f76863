//! Requests of this shard's connections that wait for messages (GW-7).
//!
//! A request first polls a partition. If there is nothing, one that waits for one partition is parked there and answered
//! from there, with a small answer at first: it holds no memory while it waits. A group member's request that waits for
//! any of several partitions must not get messages from two: partitions notify it, and it then polls one that has
//! messages. The connection's shard keeps the deadline, and makes a new plan when the catalog changes: permissions and
//! owners are those of the catalog at the time of the answer, not of the request.

mod end;
mod room;

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use headrace_link::{EndWait, Refusal, WhenReady};
use headrace_model::{Namespace, Timestamp, UserId};
use headrace_partition::{PartitionError, Poll, ReadError, Response};
use headrace_wire::message::HEADER_BYTES;

use crate::{
    api::Effect,
    calls::{ConnectionKey, Mail, Origin, PartitionAnswer, PartitionCall, Sequence, WaitingPoll},
    dispatch::{Plan, answers::encode_partition_answer, explaining::explanation},
    hosting::members::find_member,
    memory::usage::MemoryUse,
    moment::Moment,
    routing::{costs::Costs, mail::Ways},
    sessions::{
        Sessions,
        connection::{Requester, nothing_polled},
    },
};

/// Maximum size of the answer to a parked request, which holds no part of its user's share.
const PARKED_BYTES_MAX: u32 = 64 << 10;

/// A waiting request.
struct Wait {
    /// User on whose behalf the connection waits.
    user: UserId,
    sequence: Sequence,
    deadline: Timestamp,
    /// True after the deadline: any number of messages suffices.
    is_due: bool,
    /// Payload of the request, from which the plan is made anew.
    request: Box<[u8]>,
    plan: Plan,
    phase: Phase,
    /// True if the plan is void but a poll in flight may have found messages and has to be waited for.
    is_void: bool,
    /// True if the request has waited at any partition.
    had_place: bool,
    /// Maximum size of the answer, while a part of the user's share is held for it.
    bytes_max: Option<u32>,
}

enum Phase {
    /// The plan has no partition to wait at.
    Nowhere,
    /// Parked at the only partition, which answers.
    Parked,
    /// All partitions have been asked to notify when they have messages.
    Notified,
    /// One partition is polled.
    Trying {
        place: Namespace,
        /// True if all other partitions have been asked to notify.
        is_armed: bool,
        /// Partitions that sent a notification meanwhile.
        ready: Vec<Namespace>,
    },
    /// The deadline has passed: partitions are polled one after the other until one has messages.
    Taking { place: usize },
    /// The user's share has no room for an answer. This phase follows when it has.
    Claiming { then: Box<Phase> },
}

impl Phase {
    /// Partition that the phase polls.
    fn polled(&self, plan: &Plan) -> Option<Namespace> {
        match self {
            Self::Trying { place, .. } => Some(*place),
            Self::Taking { place } => plan.places.get(*place).copied(),
            Self::Nowhere | Self::Parked | Self::Notified | Self::Claiming { .. } => None,
        }
    }
}

impl Wait {
    fn origin(&self, moment: Moment<'_>, key: ConnectionKey) -> Origin {
        Origin {
            trace: None,
            shard: moment.config.shard,
            connection: key,
            sequence: self.sequence,
            member: self.plan.member,
        }
    }

    fn cost(&self) -> usize {
        cost(&self.plan)
    }

    /// Return whether a poll is in flight at a partition other than this one.
    fn is_polled_elsewhere(&self, namespace: Namespace) -> bool {
        let polled = self.phase.polled(&self.plan);
        polled.is_some_and(|place| place != namespace)
    }

    /// Note a partition that is to be polled after the current one.
    fn note_ready(&mut self, namespace: Namespace) {
        let phase = match &mut self.phase {
            Phase::Claiming { then } => &mut **then,
            phase => phase,
        };
        if let Phase::Trying { ready, .. } = phase
            && self.plan.places.contains(&namespace)
            && !ready.contains(&namespace)
        {
            ready.push(namespace);
        }
    }
}

/// Number of partitions that a plan counts against the limit of waits and watches.
pub(crate) fn cost(plan: &Plan) -> usize {
    plan.places.len().max(1)
}

/// All waiting requests, by connection; a connection has at most one.
#[derive(Default)]
pub(crate) struct Waits {
    by_connection: HashMap<ConnectionKey, Box<Wait>, FixedState>,
    deadlines: BTreeSet<(Timestamp, ConnectionKey)>,
    costs: Costs,
}

impl Waits {
    /// Number of partitions that all waits count against the limit.
    pub(crate) fn cost(&self) -> usize {
        self.costs.all()
    }

    /// Number of partitions that the waits of one user count.
    pub(crate) fn cost_of(&self, user: UserId) -> usize {
        self.costs.of(user)
    }

    /// Earliest deadline of a waiting request.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn has(&self, key: ConnectionKey) -> bool {
        self.by_connection.contains_key(&key)
    }

    /// Return whether an answer belongs to a waiting request.
    pub(crate) fn has_asked(&self, origin: &Origin) -> bool {
        let found = self.by_connection.get(&origin.connection);
        found.is_some_and(|wait| wait.sequence == origin.sequence)
    }

    fn insert(&mut self, key: ConnectionKey, wait: Box<Wait>) {
        self.costs.add(wait.user, wait.cost());
        if !wait.is_due {
            self.deadlines.insert((wait.deadline, key));
        }
        self.by_connection.insert(key, wait);
    }

    fn take(&mut self, key: ConnectionKey) -> Option<Box<Wait>> {
        let wait = self.by_connection.remove(&key)?;
        self.costs.remove(wait.user, wait.cost());
        self.deadlines.remove(&(wait.deadline, key));
        Some(wait)
    }

    fn keys(&self) -> Vec<ConnectionKey> {
        self.by_connection.keys().copied().collect()
    }
}

/// The waiting requests, with all that an answer to one of them needs.
pub(crate) struct Waiting<'a> {
    pub(crate) waits: &'a mut Waits,
    pub(crate) ways: Ways<'a>,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) memory: &'a mut MemoryUse,
}

/// Consequence of a partition's answer.
enum Step {
    /// Ignore an answer that belongs to an abandoned plan.
    Ignore,
    /// Make a new plan, because this one is void.
    Anew,
    /// Poll from this place of the plan on, because the deadline has passed.
    Take { place: usize },
    /// Wait until a partition notifies.
    Wait,
    /// Answer the request with this result.
    Answer,
}

fn next_step(wait: &Wait, result: &Result<Response, Refusal>) -> Step {
    let has_nothing = match result {
        Ok(Response::Polled(polled)) => polled.messages_count == 0 && wait.plan.poll.count > 0,
        Err(Refusal::NotReady | Refusal::NothingAssigned) => true,
        _ => false,
    };
    let is_only = wait.plan.places.len() == 1;
    match (&wait.phase, result) {
        (Phase::Notified | Phase::Nowhere | Phase::Claiming { .. }, _) => Step::Ignore,
        // The catalog shows what has become of the partition.
        (_, Err(Refusal::NotFound)) | (Phase::Parked, Err(Refusal::NotReady)) => Step::Anew,
        (Phase::Parked | Phase::Trying { .. }, Err(Refusal::NothingAssigned)) if is_only => {
            if wait.plan.is_named {
                Step::Answer
            } else {
                Step::Anew
            }
        }
        // The partition is not open, and was asked not to wait for that.
        (Phase::Trying { .. }, Ok(_)) if is_only && wait.is_due => Step::Answer,
        (Phase::Trying { .. } | Phase::Taking { .. }, _) if has_nothing && wait.is_void => {
            Step::Anew
        }
        (Phase::Trying { .. }, _) if has_nothing && wait.is_due => Step::Take { place: 0 },
        (Phase::Trying { .. }, _) if has_nothing => Step::Wait,
        (Phase::Taking { place }, _) if has_nothing => Step::Take { place: place + 1 },
        _ => Step::Answer,
    }
}

impl Waiting<'_> {
    /// Start to wait with an admitted request.
    pub(crate) fn begin_wait(
        &mut self,
        requester: &mut Requester<'_>,
        plan: Plan,
        micros: u64,
        request: &[u8],
        effects: &mut Vec<Effect>,
    ) {
        let user = requester.session.principal().unwrap_or(plan.user);
        // The client cannot send heartbeats while it waits.
        requester.session.last_heartbeat = self.ways.moment.now;
        let key = requester.key;
        let micros = micros.min(self.ways.moment.config.wait_micros_max);
        let mut wait = Box::new(Wait {
            user,
            sequence: requester.pipeline.begin_alone(),
            deadline: Timestamp(self.ways.moment.now.0.saturating_add(micros)),
            is_due: false,
            request: request.into(),
            plan,
            phase: Phase::Nowhere,
            is_void: false,
            had_place: false,
            bytes_max: Some(requester.pipeline.answer_bytes_max()),
        });
        self.enter(key, &mut wait, effects);
        self.waits.insert(key, wait);
    }

    /// Execute the plan: poll the first of its partitions.
    fn enter(&mut self, key: ConnectionKey, wait: &mut Wait, effects: &mut Vec<Effect>) {
        wait.is_void = false;
        wait.had_place |= !wait.plan.places.is_empty();
        match wait.plan.places[..] {
            [] => wait.phase = Phase::Nowhere,
            [first, ..] => {
                let catalog = self.ways.moment.catalog;
                // The start rotates, so that partitions that always have messages do not starve the others.
                let turn = wait.plan.member.and_then(|membership| {
                    find_member(membership, catalog, first)?.next_partition()
                });
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
        let phase = Phase::Trying {
            place,
            is_armed,
            ready,
        };
        self.poll_in(key, wait, phase, None, effects);
    }

    /// Send a poll to a partition, which looks once or waits.
    fn ask(
        &mut self,
        key: ConnectionKey,
        wait: &Wait,
        namespace: Namespace,
        when_ready: WhenReady,
        effects: &mut Vec<Effect>,
    ) {
        let origin = wait.origin(self.ways.moment, key);
        let minimum_bytes = if wait.is_due {
            0
        } else {
            wait.plan.poll.minimum_bytes
        };
        let bytes_max = match when_ready {
            // Only whether there are messages is of interest.
            WhenReady::Notify => minimum_bytes.max(PARKED_BYTES_MAX),
            WhenReady::Answer => wait.bytes_max.unwrap_or(PARKED_BYTES_MAX),
            WhenReady::AnswerNow => wait.bytes_max.unwrap_or(Poll::UNLIMITED),
        };
        let poll = Poll {
            minimum_bytes,
            bytes_max,
            ..wait.plan.poll
        };
        let owner = self.ways.owner(namespace);
        let mail = Mail::Wait(PartitionCall {
            origin,
            namespace,
            request: WaitingPoll { poll, when_ready },
        });
        self.ways.carry(owner, mail, effects);
    }

    fn stop(
        &mut self,
        origin: Origin,
        namespace: Namespace,
        stop: EndWait,
        effects: &mut Vec<Effect>,
    ) {
        let owner = self.ways.owner(namespace);
        let mail = Mail::StopWaiting {
            origin,
            namespace,
            stop,
        };
        self.ways.carry(owner, mail, effects);
    }

    /// Cancel the pending notifications of all partitions.
    fn disarm(&mut self, key: ConnectionKey, wait: &Wait, effects: &mut Vec<Effect>) {
        let phase = match &wait.phase {
            Phase::Claiming { then } => &**then,
            phase => phase,
        };
        let except = match phase {
            Phase::Notified => None,
            Phase::Trying {
                place,
                is_armed: true,
                ..
            } => Some(*place),
            _ => return,
        };
        let origin = wait.origin(self.ways.moment, key);
        for place in &wait.plan.places {
            if Some(*place) != except {
                self.stop(origin, *place, EndWait::Cancel, effects);
            }
        }
    }

    /// Process a partition's answer to a waiting request.
    pub(crate) fn wait_answered(&mut self, answer: PartitionAnswer, effects: &mut Vec<Effect>) {
        let PartitionAnswer {
            origin,
            namespace,
            result,
        } = answer;
        let key = origin.connection;
        let Some(mut wait) = self.waits.take(key) else {
            return;
        };
        if wait.is_polled_elsewhere(namespace) {
            // The partition cannot notify any longer: the next poll there returns the reason.
            wait.note_ready(namespace);
            return self.waits.insert(key, wait);
        }
        if let Err(Refusal::Partition(PartitionError::Read(ReadError::TooLarge { bytes }))) = result
        {
            let phase = match core::mem::replace(&mut wait.phase, Phase::Nowhere) {
                Phase::Parked => Phase::Trying {
                    place: namespace,
                    is_armed: false,
                    ready: Vec::new(),
                },
                phase => phase,
            };
            if phase.polled(&wait.plan).is_some() {
                self.poll_in(key, &mut wait, phase, Some(bytes), effects);
            } else {
                wait.phase = phase;
            }
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
        if wait.bytes_max.is_none() {
            self.memory.count_answer(self.sessions, key);
        }
        if let (Some(member), false) = (wait.plan.member, wait.plan.is_named) {
            let member = find_member(member, self.ways.moment.catalog, namespace);
            if let Some(member) = member {
                member.set_last_polled(namespace.partition());
            }
        }
        let explanation = explanation(self.ways.moment, namespace, &result);
        self.end_wait(key, wait.sequence, |pipeline, sequence| {
            let explanation = explanation.as_deref();
            encode_partition_answer(pipeline, sequence, namespace, result, explanation);
        });
        if wait.plan.places.len() == 1 {
            self.follow_wait(key, namespace);
        }
    }

    /// Count the partition of a request that has waited, and move the connection to its owner if due. This could not
    /// happen earlier: a connection that is about to move is not read from, so a closed client would go unnoticed.
    fn follow_wait(&mut self, key: ConnectionKey, namespace: Namespace) {
        let home = self.ways.moment.config.shard;
        let shard = self.ways.owner(namespace).shard_for(home);
        if let Some(connection) = self.sessions.get_mut(key)
            && connection.session.affinity.count(shard, home)
        {
            connection.moving_to = Some(shard);
        }
    }

    /// Continue after a poll without messages: request a notification from that partition, and from all others unless
    /// that was done already. Meanwhile poll another partition that has sent a notification.
    fn wait_on(
        &mut self,
        key: ConnectionKey,
        wait: &mut Wait,
        is_lost: bool,
        effects: &mut Vec<Effect>,
    ) {
        let phase = core::mem::replace(&mut wait.phase, Phase::Notified);
        let Phase::Trying {
            place,
            is_armed,
            mut ready,
        } = phase
        else {
            return;
        };
        if wait.plan.places.len() == 1 {
            return self.park(key, wait, place, effects);
        }
        wait.bytes_max = None;
        if let Some(connection) = self.sessions.get_mut(key) {
            connection.pipeline.release_answer_claim();
        }
        let places = if is_armed {
            vec![place]
        } else {
            wait.plan.places.clone()
        };
        for other in places {
            // The member no longer owns this partition and does not watch it: the catalog brings a new plan.
            if !(is_lost && other == place) {
                self.ask(key, wait, other, WhenReady::Notify, effects);
            }
        }
        if let Some(next) = ready.pop() {
            self.try_place(key, wait, next, true, ready, effects);
        }
    }

    /// Poll from this place of the plan on until a partition has messages, because the deadline has passed.
    fn take_from(
        &mut self,
        key: ConnectionKey,
        mut wait: Box<Wait>,
        place: usize,
        effects: &mut Vec<Effect>,
    ) {
        // A partition that sent no notification has less than the minimum. If the minimum is small, that means no
        // messages.
        let is_small = (wait.plan.poll.minimum_bytes as usize) <= HEADER_BYTES;
        let none_notified = matches!(wait.phase, Phase::Notified);
        let place_left = wait.plan.places.get(place).copied();
        let Some(namespace) = place_left.filter(|_| !(is_small && none_notified)) else {
            return self.end_wait(key, wait.sequence, |pipeline, sequence| {
                let response = nothing_polled(pipeline.names_gaps(sequence));
                pipeline.answer_one(sequence, response);
            });
        };
        debug_assert_eq!(wait.plan.places.get(place), Some(&namespace));
        self.poll_in(key, &mut wait, Phase::Taking { place }, None, effects);
        self.waits.insert(key, wait);
    }

    /// Process a partition's notification that it has enough messages.
    pub(crate) fn wait_notified(
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
        if matches!(wait.phase, Phase::Notified) && wait.plan.places.contains(&namespace) {
            self.try_place(key, &mut wait, namespace, true, Vec::new(), effects);
        } else {
            wait.note_ready(namespace);
        }
        self.waits.insert(key, wait);
    }
}
