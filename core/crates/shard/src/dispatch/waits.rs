//! Requests that wait for messages, and the server's extensions of the Iggy protocol (0.8).

use headrace_catalog::{Action, Topic};
use headrace_model::{PartitionId, UserId, limits};
use headrace_partition::ConsumerKey;
use headrace_ticket::Access;
use headrace_wire::{
    CommandCode, ConsumerKind, Status,
    command::{PollMessages, ServedBy, WaitMessages},
    response::{Capabilities, Limit, LimitKind},
};

use super::{Context, Handled, Outcome, Plan, Wait, groups::namespace_of, messages::poll_of};
use crate::{
    config::Hosting,
    hosting::members::membership,
    moment::Moment,
    sessions::{connection::Session, registry::ClientRegistry},
};

/// Version of the extension numbers. A change of meaning requires another version.
const EXTENSIONS_VERSION: u32 = 1;

pub(crate) fn capabilities(moment: Moment<'_>) -> Outcome {
    let limit = |kind: LimitKind, value| Limit {
        kind: kind as u32,
        value,
    };
    let config = &moment.config;
    // Only partition nodes accept tickets. Users log in at gateways, where they can issue tickets and commit
    // transactions.
    let takes_tickets = matches!(config.hosting, Hosting::Placed { .. });
    let makes_tickets = !takes_tickets && config.ticket_key.is_some();
    let is_served = |code: CommandCode| match code.served_by() {
        ServedBy::All => true,
        ServedBy::PartitionNodes => takes_tickets,
        ServedBy::TicketIssuers => makes_tickets,
        ServedBy::Gateways => !takes_tickets,
    };
    let capabilities = Capabilities {
        version: EXTENSIONS_VERSION,
        codes: (CommandCode::ALL.iter())
            .filter(|code| code.is_extension() && is_served(**code))
            .map(|code| code.code())
            .collect(),
        limits: vec![
            limit(
                LimitKind::RequestBytes,
                limits::CONTROL_PAYLOAD_SIZE_BYTES_MAX.into(),
            ),
            limit(LimitKind::SendBytes, config.send_payload_bytes_max as u64),
            limit(
                LimitKind::PollBytes,
                config.partition.poll_size_bytes_max.into(),
            ),
            limit(LimitKind::WaitMicros, config.wait_micros_max),
            limit(
                LimitKind::WaitedPartitions,
                config.waited_partitions_max as u64,
            ),
        ],
    };
    Outcome::payload(|out| capabilities.encode(out))
}

/// Plan a waiting request according to the current catalog.
pub(crate) fn plan_wait(
    moment: Moment<'_>,
    clients: &ClientRegistry,
    session: &Session,
    request: &WaitMessages<'_>,
) -> Result<Plan, Status> {
    let user: UserId = session
        .current_user(moment)
        .ok_or(Status::UNAUTHENTICATED)?;
    let context = Context::new(moment, clients, session, user);
    context.plan_wait(request)
}

impl Context<'_> {
    /// Start to wait for messages. A request with a wait of 0 is answered like a poll.
    pub(super) fn wait_messages(&self, request: &WaitMessages<'_>) -> Handled {
        if request.minimum_bytes == 0 || request.maximum_wait_micros == 0 {
            return self.poll_messages(&request.poll);
        }
        let plan = self.plan_wait(request)?;
        let (stream, topic) = plan.topic;
        let stream = self.catalog.stream_by_id(stream);
        let topic = stream.and_then(|stream| stream.topic_by_id(topic));
        Ok(Outcome::Wait(Wait {
            plan,
            micros: request.maximum_wait_micros,
            rate: topic.and_then(|topic| topic.rates.read.clone()),
        }))
    }

    pub(super) fn read_messages(&self, request: &WaitMessages<'_>) -> Handled {
        self.wait_messages(request)
    }

    fn plan_wait(&self, request: &WaitMessages<'_>) -> Result<Plan, Status> {
        let poll = &request.poll;
        let topic = self.topic(poll.stream, poll.topic, Action::Poll)?;
        let mut plan = match poll.consumer.kind {
            ConsumerKind::Group => self.plan_wait_as_member(topic, poll)?,
            ConsumerKind::Consumer => Plan {
                user: self.user,
                topic: (topic.stream_id, topic.id),
                poll: self.plain_poll(topic, poll),
                member: None,
                places: vec![self.place_of(topic, poll.partition_id, Access::READ)?],
                is_named: true,
            },
        };
        plan.poll.minimum_bytes = request.minimum_bytes;
        Ok(plan)
    }

    fn plan_wait_as_member(
        &self,
        topic: &Topic,
        request: &PollMessages<'_>,
    ) -> Result<Plan, Status> {
        let (group, member) = self.membership(topic, request.consumer.id)?;
        let named = request.partition_id.map(PartitionId);
        let partitions = match &named {
            Some(partition) if member.owns(*partition) => core::slice::from_ref(partition),
            Some(_) => &[],
            None => member.rotation_partitions(),
        };
        Ok(Plan {
            user: self.user,
            topic: (topic.stream_id, topic.id),
            poll: poll_of(request, ConsumerKey::Group(group.key), None),
            member: Some(membership(group, member)),
            places: (partitions.iter())
                .filter_map(|partition| namespace_of(topic, *partition))
                .collect(),
            is_named: named.is_some(),
        })
    }
}
