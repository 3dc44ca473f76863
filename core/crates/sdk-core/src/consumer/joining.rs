//! Partitions of a consumer: got, kept, given up.

use std::time::Duration;

use headrace_wire::command::{
    ConsumerOffsetPath, CreateConsumerGroup, TopicPath, WatchPartitions, WatchedTopic,
};
use headrace_wire::response::{ConsumerOffsetInfo, Membership as MemberAnswer, TopicDetails};
use headrace_wire::{Command, CommandCode, Identifier, Malformed, Status, WatchAction};

use super::effects::{ConsumerEffect, DataToken, Item, WatchToken};
use super::partition::Partition;
use super::settings::{Membership, Start};
use super::{Consumer, Phase};
use crate::{Failure, Outcome, Repeat, Request};

impl<C> Consumer<C> {
    /// Take the first step towards the partitions.
    pub(super) fn join(&mut self) {
        self.is_join_delayed = false;
        match &self.config.membership {
            Membership::Group { .. } => self.ask(DataToken::Join),
            Membership::Alone { partitions, .. } => match partitions.clone() {
                Some(partitions) => self.own(&partitions),
                None => self.ask(DataToken::Topic),
            },
        }
    }

    /// Ask for the partitions, if they can change.
    pub(super) fn beat(&mut self) {
        if self.is_heartbeat_in_flight {
            return;
        }
        match &self.config.membership {
            Membership::Group { .. } => {
                self.is_heartbeat_in_flight = true;
                self.ask(DataToken::Membership);
            }
            // Partitions may be added to the topic.
            Membership::Alone {
                partitions: None, ..
            } => {
                self.is_heartbeat_in_flight = true;
                self.ask(DataToken::Topic);
            }
            Membership::Alone { .. } => {}
        }
    }

    fn ask(&mut self, token: DataToken<C>) {
        let group = self.config.membership.group();
        let path = TopicPath {
            stream: self.stream.as_identifier(),
            topic: self.topic.as_identifier(),
        };
        let command = match (&token, group) {
            (DataToken::Join, Some(group)) => Command::JoinConsumerGroup(self.group_path(group)),
            (DataToken::Membership, Some(group)) => Command::GetMembership(self.group_path(group)),
            (DataToken::CreateGroup, Some(Identifier::Named(name))) => {
                Command::CreateConsumerGroup(CreateConsumerGroup {
                    stream: path.stream,
                    topic: path.topic,
                    name,
                })
            }
            _ => Command::GetTopic(path),
        };
        let request = Request::new(&command, Repeat::Bound(self.generation));
        self.submit(request, token);
    }

    /// Process the answer to a request that leads to partitions.
    pub(super) fn joined(&mut self, token: DataToken<C>, outcome: Outcome, now: Duration) {
        self.is_heartbeat_in_flight = false;
        let outcome = match outcome {
            // The session reports the loss of its connection itself.
            Err(Failure::NotSent { .. } | Failure::Unanswered { .. } | Failure::Late { .. }) => {
                return;
            }
            other => other,
        };
        if self.phase == Phase::Ended {
            return;
        }
        match (token, outcome) {
            // The next heartbeat asks again.
            (_, Err(failure)) if failure.is_temporary() => {
                self.refusal = Some(failure);
                self.delay_join(now);
            }
            (DataToken::Join, Err(failure)) if self.may_create(&failure) => {
                self.ask(DataToken::CreateGroup);
            }
            (DataToken::CreateGroup, Err(failure))
                if failure.status() != Some(Status::CONSUMER_GROUP_NAME_ALREADY_EXISTS) =>
            {
                self.fail(failure);
            }
            (DataToken::CreateGroup, _) => self.ask(DataToken::Join),
            (DataToken::Join, Ok(_)) => self.ask(DataToken::Membership),
            (DataToken::Membership, Ok(payload)) => match MemberAnswer::decode(&payload) {
                Ok(found) => self.apply(&found, now),
                Err(error) => self.fail(malformed(CommandCode::GetMembership, error)),
            },
            // The membership has ended, for example because a heartbeat came too late.
            (DataToken::Membership, Err(failure))
                if failure.status() == Some(Status::CONSUMER_GROUP_MEMBER_NOT_FOUND) =>
            {
                let was_member = self.phase == Phase::Reading;
                let lost = self.assigned();
                self.drop_partitions(&lost);
                self.phase = Phase::Joining;
                if was_member {
                    self.join();
                } else {
                    // It has just joined: no reason to try again at once.
                    self.delay_join(now);
                }
            }
            (DataToken::Topic, Ok(payload)) => match TopicDetails::decode(&payload) {
                Ok(found) => {
                    let ids: Vec<_> = found.partitions.iter().map(|found| found.id).collect();
                    self.own(&ids);
                }
                Err(_) if payload.is_empty() => {
                    self.fail(Failure::missing_topic(&self.stream, &self.topic));
                }
                Err(error) => self.fail(malformed(CommandCode::GetTopic, error)),
            },
            (_, Err(failure)) => self.fail(failure),
            _ => {}
        }
    }

    fn delay_join(&mut self, now: Duration) {
        if self.phase == Phase::Joining {
            self.is_join_delayed = true;
            self.heartbeat_at = now + self.config.heartbeat;
        }
    }

    fn may_create(&self, failure: &Failure) -> bool {
        let is_missing = matches!(
            failure.status(),
            Some(Status::CONSUMER_GROUP_ID_NOT_FOUND | Status::CONSUMER_GROUP_NAME_NOT_FOUND)
        );
        let creates = matches!(
            &self.config.membership,
            Membership::Group {
                group: crate::OwnedIdentifier::Named(_),
                create: true
            }
        );
        is_missing && creates
    }

    /// Own all of these partitions, alone.
    fn own(&mut self, ids: &[u32]) {
        self.phase = Phase::Reading;
        let gone = self.partitions.keys().copied();
        let gone: Vec<_> = gone.filter(|id| !ids.contains(id)).collect();
        self.drop_partitions(&gone);
        self.paused.retain(|id| ids.contains(id));
        let added = ids.iter().copied();
        let added: Vec<_> = added
            .filter(|id| !self.partitions.contains_key(id))
            .collect();
        self.take(&added);
        self.query_offsets();
        self.read_more();
    }

    /// Adopt the partitions that the server reports for this member.
    fn apply(&mut self, found: &MemberAnswer, now: Duration) {
        let was_reading = self.phase == Phase::Reading;
        if !was_reading {
            self.heartbeat_at = now + self.config.heartbeat;
        }
        self.phase = Phase::Reading;
        let is_owned = |id: &u32| {
            found
                .partitions
                .iter()
                .any(|owned| owned.partition_id == *id)
        };
        let gone: Vec<_> = self
            .partitions
            .keys()
            .copied()
            .filter(|id| !is_owned(id))
            .collect();
        // The server moves a partition without asking if everything that was sent of it is stored.
        let mut moved = Vec::new();
        for id in &gone {
            if let Some(partition) = self.partitions.get_mut(id)
                && !partition.is_revoked
                && partition.is_settled()
            {
                partition.is_revoked = true;
                moved.push(*id);
            }
        }
        if !moved.is_empty() {
            self.item(Item::Revoked(moved));
        }
        self.drop_partitions(&gone);
        if was_reading {
            self.paused.retain(is_owned);
        }
        let mut kept = Vec::new();
        for owned in &found.partitions {
            if let Some(partition) = self.partitions.get_mut(&owned.partition_id) {
                partition.is_leaving = owned.is_leaving;
                if partition.is_revoked && !owned.is_leaving {
                    partition.is_revoked = false;
                    kept.push(owned.partition_id);
                }
            }
        }
        if !kept.is_empty() {
            // They stay after all.
            self.item(Item::Assigned(kept));
        }
        let added: Vec<_> = (found.partitions.iter())
            .filter(|owned| !owned.is_leaving)
            .map(|owned| owned.partition_id)
            .filter(|id| !self.partitions.contains_key(id))
            .collect();
        self.take(&added);
        self.query_offsets();
        self.report_revoked();
        self.read_more();
    }

    /// Report partitions that are to be given up, once nothing of theirs is in flight.
    pub(super) fn report_revoked(&mut self) {
        let mut revoked = Vec::new();
        for (id, partition) in &mut self.partitions {
            if partition.is_leaving && !partition.is_revoked && !partition.is_reading {
                partition.is_revoked = true;
                revoked.push(*id);
            }
        }
        if !revoked.is_empty() {
            self.item(Item::Revoked(revoked));
        }
    }

    fn take(&mut self, ids: &[u32]) {
        if ids.is_empty() {
            return;
        }
        for id in ids {
            let epoch = self.next_epoch();
            self.partitions.insert(*id, Partition::new(epoch));
        }
        self.item(Item::Assigned(ids.to_vec()));
        self.watch_partitions(ids);
    }

    /// Give up partitions that belong to others now.
    pub(super) fn drop_partitions(&mut self, ids: &[u32]) {
        let mut lost = Vec::new();
        for id in ids {
            if let Some(partition) = self.partitions.remove(id)
                && !partition.is_revoked
            {
                lost.push(*id);
            }
        }
        if !ids.is_empty() {
            self.unwatch_partitions(ids);
        }
        if !lost.is_empty() {
            self.item(Item::Lost(lost));
        }
    }

    /// Ask for the stored offsets of partitions without a position.
    pub(super) fn query_offsets(&mut self) {
        let unknown = self.partitions.iter();
        let unknown = unknown.filter(|(_, found)| !found.is_positioned() && !found.is_querying);
        let unknown: Vec<_> = unknown.map(|(id, _)| *id).collect();
        for id in unknown {
            self.query_offset(id);
        }
    }

    pub(super) fn query_offset(&mut self, id: u32) {
        let start = self.config.start;
        let Some(partition) = self.partitions.get_mut(&id) else {
            return;
        };
        let Some(consumer) = self.config.membership.consumer() else {
            partition.begin_at(start);
            return self.settle_end(id);
        };
        partition.is_querying = true;
        let epoch = partition.epoch;
        let command = Command::GetConsumerOffset(ConsumerOffsetPath {
            consumer,
            stream: self.stream.as_identifier(),
            topic: self.topic.as_identifier(),
            partition_id: Some(id),
        });
        let request = Request::new(&command, Repeat::Bound(self.generation));
        let token = DataToken::StoredOffset {
            partition: id,
            epoch,
        };
        self.submit(request, token);
    }

    /// Process the answer to a query of a stored offset.
    pub(super) fn found_offset(&mut self, id: u32, epoch: u32, outcome: Outcome) {
        let Some(partition) = self.partitions.get_mut(&id) else {
            return;
        };
        // The caller may have chosen a place of its own meanwhile.
        if partition.epoch != epoch || partition.is_positioned() {
            return;
        }
        partition.is_querying = false;
        let stored = match outcome {
            Ok(payload) if payload.is_empty() => None,
            Ok(payload) => match ConsumerOffsetInfo::decode(&payload) {
                Ok(found) => Some(found.stored_offset.saturating_add(1)),
                Err(error) => return self.fail(malformed(CommandCode::GetConsumerOffset, error)),
            },
            // The next heartbeat asks again, on the next connection if this one has broken.
            Err(failure) if failure.status().is_none() => return,
            Err(failure) if failure.is_temporary() => {
                self.refusal = Some(failure);
                return;
            }
            Err(failure)
                if failure.status() == Some(Status::PARTITION_NOT_FOUND)
                    && self.config.membership.can_change() =>
            {
                return self.beat();
            }
            Err(failure) => return self.fail(failure),
        };
        partition.found_stored(stored.unwrap_or(0));
        // What was processed here, and could not be stored, is not read again, unless another member was further.
        let next = stored.into_iter().chain(self.processed.get(&id).copied());
        partition.begin_at(next.max().map_or(self.config.start, Start::Offset));
        self.settle_end(id);
        self.read_more();
    }

    pub(super) fn watch_partitions(&mut self, ids: &[u32]) {
        let (action, token) = if self.names_openings {
            let token = WatchToken::AddNamingOpenings;
            (WatchAction::AddNamingOpenings, token)
        } else {
            (WatchAction::Add, WatchToken::Add)
        };
        self.change_watch(ids, action, token);
    }

    fn unwatch_partitions(&mut self, ids: &[u32]) {
        self.change_watch(ids, WatchAction::Remove, WatchToken::Remove);
    }

    fn change_watch(&mut self, ids: &[u32], action: WatchAction, token: WatchToken) {
        let Some(generation) = self.watch.filter(|_| !ids.is_empty()) else {
            return;
        };
        let command = Command::WatchPartitions(WatchPartitions {
            action,
            topics: vec![WatchedTopic {
                stream: self.stream.as_identifier(),
                topic: self.topic.as_identifier(),
                partition_ids: ids.to_vec(),
            }],
        });
        match Request::new(&command, Repeat::Bound(generation)) {
            Ok(request) => self
                .effects
                .push_back(ConsumerEffect::Watch { request, token }),
            Err(failure) => self.fail(failure),
        }
    }
}

pub(super) fn malformed(code: CommandCode, error: Malformed) -> Failure {
    Failure::Malformed {
        code: code.code(),
        reason: error.to_string(),
    }
}
