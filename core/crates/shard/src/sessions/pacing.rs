//! Quotas of users and topics: a request waits in its connection until what was used before is paid.
//!
//! A request that sends or reads messages starts if neither its user nor its topic owes anything in that direction.
//! Otherwise it stays in the inbox, and nothing more is received, so the client is held up by its socket. All other
//! requests start at once. The rates are in the catalog, so users and topics without a quota cost a comparison.

use std::sync::Arc;

use headrace_catalog::{Rate, Rates};
use headrace_model::{Level, StreamId, Timestamp, TopicId};
use headrace_wire::CommandCode;

use super::{
    Sessions,
    connection::{Requester, Session},
};
use crate::{api::Effect, calls::ConnectionKey, moment::Moment};

/// Maximum number of delayed connections inside the process of one user: as many as the pool of the process gives to
/// one.
const IN_PROCESS_MAX: usize = 1024;

/// Direction of the messages of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// Messages from the client.
    Sent,
    /// Messages for the client.
    Read,
}

impl Direction {
    fn of(code: u32) -> Option<Self> {
        const SEND: u32 = CommandCode::SendMessages.code();
        const STAGE: u32 = CommandCode::StageMessages.code();
        const POLL: u32 = CommandCode::PollMessages.code();
        const WAIT: u32 = CommandCode::WaitMessages.code();
        const READ: u32 = CommandCode::ReadMessages.code();
        match code {
            SEND | STAGE => Some(Self::Sent),
            POLL | WAIT | READ => Some(Self::Read),
            _ => None,
        }
    }

    fn rate(self, rates: &Rates) -> Option<&Arc<Rate>> {
        match self {
            Self::Sent => rates.sent.as_ref(),
            Self::Read => rates.read.as_ref(),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Read => "read",
        }
    }
}

/// Messages that a request sends, or is to read.
pub(crate) struct Traffic {
    pub(crate) topic: (StreamId, TopicId),
    /// Rate of the topic, if it has a quota.
    pub(crate) rate: Option<Arc<Rate>>,
    /// Size of the request.
    pub(crate) bytes: usize,
}

impl Sessions {
    /// Return whether the user of a session may start a request with this code. Otherwise the request waits.
    #[inline]
    pub(crate) fn is_user_paid_up(
        &mut self,
        moment: Moment<'_>,
        key: ConnectionKey,
        session: &mut Session,
        code: u32,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(direction) = Direction::of(code) else {
            return true;
        };
        let user = session.principal();
        session.pace.look_up(moment.catalog, user);
        let Some(rate) = direction.rate(&session.pace.rates) else {
            return true;
        };
        let Some(until) = rate.owes_until(moment.now) else {
            return true;
        };
        if rate.is_report_due(moment.now) {
            let found = user.and_then(|user| moment.catalog.user_by_id(user));
            let name = found.map_or("", |user| &*user.username);
            effects.push(slowed_down(&format!("user {name}"), direction, rate));
        }
        self.delay(moment, key, session, until);
        false
    }

    /// Charge a request of this size, or its answer, to its user and to its topic, if these have rates. Returns false
    /// if it has to wait because of its topic.
    #[inline]
    pub(crate) fn pay(
        &mut self,
        moment: Moment<'_>,
        requester: &mut Requester<'_>,
        code: u32,
        traffic: Traffic,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Traffic { topic, rate, bytes } = traffic;
        let Some(direction) = Direction::of(code) else {
            return true;
        };
        if let Some(rate) = &rate
            && let Some(until) = rate.owes_until(moment.now)
        {
            if rate.is_report_due(moment.now) {
                let whose = name_topic(moment, topic);
                effects.push(slowed_down(&whose, direction, rate));
            }
            self.delay(moment, requester.key, requester.session, until);
            return false;
        }
        let user = direction.rate(&requester.session.pace.rates).cloned();
        match direction {
            Direction::Sent => {
                for rate in [user, rate].into_iter().flatten() {
                    rate.charge(moment.now, bytes as u64);
                }
            }
            Direction::Read => requester.pipeline.charge_answer([user, rate]),
        }
        true
    }

    fn delay(
        &mut self,
        moment: Moment<'_>,
        key: ConnectionKey,
        session: &mut Session,
        until: Timestamp,
    ) {
        debug_assert!(
            session.pace.delay.is_none(),
            "a request that waits is not tried"
        );
        session.pace.delay = Some((moment.now, until));
        // Connections of clients are limited anyway. Those of the process are not, and one whose caller has gone is
        // noticed only when its delay is over.
        let user = session
            .principal()
            .filter(|_| session.arrival.is_in_process());
        if user.is_some() {
            let same = (self.delayed.iter()).filter(|(_, other)| *other == user);
            session.pace.is_surplus = same.count() >= IN_PROCESS_MAX;
        }
        self.delayed.push((key, user));
    }

    /// Go on with the connections whose delay is over, in the order in which they began to wait.
    pub(crate) fn resume_delayed(&mut self, moment: Moment<'_>) {
        let now = moment.now;
        for (key, user) in core::mem::take(&mut self.delayed) {
            let Some(connection) = self.get_mut(key) else {
                continue;
            };
            let session = &mut connection.session;
            let Some((since, until)) = session.pace.delay else {
                continue;
            };
            // The client cannot send heartbeats while it waits.
            session.last_heartbeat = now;
            if until > now {
                self.delayed.push((key, user));
                continue;
            }
            session.pace.delay = None;
            moment.meter.delayed(now.0.saturating_sub(since.0));
            self.touch(key);
        }
    }
}

#[cold]
pub(crate) fn name_topic(moment: Moment<'_>, (stream, topic): (StreamId, TopicId)) -> String {
    let stream = moment.catalog.stream_by_id(stream);
    let topic = stream.and_then(|stream| Some((stream, stream.topic_by_id(topic)?)));
    topic.map_or_else(String::new, |(stream, topic)| {
        format!("topic {} of stream {}", topic.name, stream.name)
    })
}

/// Report that requests wait.
fn slowed_down(whose: &str, direction: Direction, rate: &Rate) -> Effect {
    let limit = rate.bytes_per_second();
    let directed = direction.name();
    Effect::Report {
        level: Level::Warning,
        message: format!(
            "the quota of {whose} delays requests: {limit} bytes may be {directed} per second"
        ),
    }
}

impl Sessions {
    /// Have the delayed connections try again at the next tick, as quotas may have changed.
    pub(crate) fn review_delays(&mut self) {
        for index in 0..self.delayed.len() {
            let (key, _) = self.delayed[index];
            if let Some(connection) = self.get_mut(key)
                && let Some((since, _)) = connection.session.pace.delay
            {
                connection.session.pace.delay = Some((since, since));
            }
        }
    }
}
