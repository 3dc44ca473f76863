//! Polls begin to wait at a partition, wake, and end.

use headrace_catalog::Catalog;
use headrace_link::{EndWait, Refusal, WhenReady};
use headrace_model::{Namespace, Timestamp};
use headrace_partition::{PartitionError, Polled, Request, Response};

use super::{
    HostedPartition, HostingState, Partitions, RequestPurpose, Started,
    waiters::{NOW, State, Waiter, WaiterKey, asker, stored},
};
use crate::{
    api::Effect,
    calls::{Origin, PartitionAnswer, PartitionCall, WaitingPoll},
};

/// Return whether a partition can be polled. It cannot while its files are read, or its predecessor's are removed.
fn can_poll(hosted: Option<&HostedPartition>) -> bool {
    hosted.is_some_and(|hosted| match &hosted.state {
        HostingState::Open(partition) => partition.is_open() || partition.failure().is_some(),
        _ => false,
    })
}

impl Partitions {
    /// Poll a partition, and wait until it has enough messages.
    pub(crate) fn wait(
        &mut self,
        catalog: &Catalog,
        call: PartitionCall<WaitingPoll>,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let PartitionCall {
            origin,
            namespace,
            request: WaitingPoll { poll, when_ready },
        } = call;
        if let Err(refusal) = self.ensure(namespace, catalog, now, effects) {
            return self.end_wait(origin, namespace, when_ready, Err(refusal));
        }
        let asker = asker(&origin, when_ready);
        if self.waiters.get_mut(namespace, &asker).is_some() {
            // A notification is already pending.
            return;
        }
        self.waiters.insert(
            namespace,
            Waiter {
                origin,
                poll,
                when_ready,
                state: State::Parked(NOW),
                stored: None,
            },
        );
        self.poll_for_waiter(catalog, namespace, &asker, now);
        self.mark_dirty(namespace);
        self.drain(namespace, effects);
    }

    /// End a waiting poll. A poll that has found enough is answered nevertheless, because its offset may already be
    /// stored.
    pub(crate) fn stop_waiting(&mut self, origin: Origin, namespace: Namespace, stop: EndWait) {
        let when_ready = match stop {
            EndWait::Cancel => WhenReady::Notify,
            EndWait::Take | EndWait::Refuse => WhenReady::Answer,
        };
        let asker = asker(&origin, when_ready);
        let can_look = can_poll(self.hosted.get(&namespace));
        let Some(waiter) = self.waiters.get_mut(namespace, &asker) else {
            return;
        };
        if stop == EndWait::Take {
            waiter.poll.minimum_bytes = 0;
        }
        match &mut waiter.state {
            State::Asking { last } => *last |= stop != EndWait::Take,
            State::Parked(_) if stop == EndWait::Take && !can_look => {
                self.waiters.remove(namespace, &asker);
                let nothing = Ok(Response::Polled(Polled::default()));
                self.end_wait(origin, namespace, when_ready, nothing);
            }
            State::Parked(level) if stop == EndWait::Take => {
                *level = NOW;
                if let Some(at) = self.waiters.at.get_mut(&namespace) {
                    at.lower(NOW);
                }
                self.mark_dirty(namespace);
            }
            State::Parked(_) => {
                self.waiters.remove(namespace, &asker);
                if stop == EndWait::Refuse {
                    self.end_wait(origin, namespace, when_ready, Err(Refusal::NotReady));
                }
            }
        }
    }

    /// Take the pending notifications.
    pub(crate) fn take_wakeups(&mut self) -> Vec<(Origin, Namespace)> {
        core::mem::take(&mut self.waiters.notifications)
    }

    /// Retry the waiters of a changed partition whose level is reached.
    pub(super) fn wake(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let Some(at) = self.waiters.at.get_mut(&namespace) else {
            return;
        };
        let hosted = self.hosted.get(&namespace);
        let Some(HostingState::Open(partition)) = hosted.map(|hosted| &hosted.state) else {
            return;
        };
        if !can_poll(hosted) {
            return;
        }
        let ready = at.take_ready(partition);
        if ready.is_empty() {
            return;
        }
        for asker in &ready {
            self.poll_for_waiter(catalog, namespace, asker, now);
        }
        self.mark_dirty(namespace);
        self.drain(namespace, effects);
    }

    /// End all waits at a partition that closes or is gone; the waiters look up its new state themselves.
    pub(super) fn end_waits(&mut self, namespace: Namespace, refusal: &Refusal) {
        let Some(at) = self.waiters.at.get_mut(&namespace) else {
            return;
        };
        let parked = |waiter: &Waiter| matches!(waiter.state, State::Parked(_));
        let away: Vec<(Origin, WhenReady)> = (at.by_asker.values())
            .filter(|waiter| parked(waiter))
            .map(|waiter| (waiter.origin, waiter.when_ready))
            .collect();
        for (origin, when_ready) in away {
            self.waiters.remove(namespace, &asker(&origin, when_ready));
            self.end_wait(origin, namespace, when_ready, Err(refusal.clone()));
        }
    }

    /// Poll the partition for a waiter.
    fn poll_for_waiter(
        &mut self,
        catalog: &Catalog,
        namespace: Namespace,
        asker: &WaiterKey,
        now: Timestamp,
    ) {
        if !can_poll(self.hosted.get(&namespace)) {
            // All waiters retry when the partition opens.
            return;
        }
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        let HostingState::Open(partition) = &hosted.state else {
            return;
        };
        let Some(waiter) = self.waiters.get_mut(namespace, asker) else {
            return;
        };
        let (origin, when_ready) = (waiter.origin, waiter.when_ready);
        if let Some(membership) = origin.member
            && let Err(refusal) = self.members.admit(catalog, namespace, membership, true)
        {
            self.waiters.remove(namespace, asker);
            return self.end_wait(origin, namespace, when_ready, Err(refusal));
        }
        waiter.state = State::Asking { last: false };
        waiter.stored = stored(partition, &waiter.poll);
        let mut poll = waiter.poll;
        if when_ready == WhenReady::Notify {
            // Only the presence of messages is checked: none are returned, so no offset is stored.
            poll.auto_commit = false;
        } else if let Some(membership) = origin.member {
            self.members.began(namespace, membership);
        }
        let started = Started {
            namespace,
            purpose: RequestPurpose::Wait(origin, when_ready),
            is_append: false,
        };
        (self.steps).start_with(&mut hosted.state, started, now, |partition, id, outbox| {
            partition.submit(now, id, Request::Poll(poll), outbox);
        });
    }

    /// Process the result of a poll for a waiter. Returns true if it may complete a revocation.
    pub(super) fn waiter_polled(
        &mut self,
        origin: Origin,
        when_ready: WhenReady,
        namespace: Namespace,
        result: Result<Response, PartitionError>,
    ) -> bool {
        let asker = asker(&origin, when_ready);
        let partition = match self.hosted.get(&namespace).map(|hosted| &hosted.state) {
            Some(HostingState::Open(partition)) => Some(partition),
            _ => None,
        };
        let Some(waiter) = self.waiters.get_mut(namespace, &asker) else {
            return false;
        };
        let may_move = when_ready != WhenReady::Notify
            && origin
                .member
                .is_some_and(|membership| self.members.ended(namespace, membership, &result));
        let result = match result {
            Ok(Response::BelowMinimum(level)) => {
                let is_last = matches!(waiter.state, State::Asking { last: true });
                if let Some(partition) = partition
                    && !is_last
                    && when_ready != WhenReady::AnswerNow
                {
                    // The deadline may have passed meanwhile.
                    let is_due = waiter.poll.minimum_bytes == 0;
                    let level = if is_due || waiter.starts_elsewhere(partition) {
                        NOW
                    } else {
                        level
                    };
                    waiter.state = State::Parked(level);
                    if let Some(at) = self.waiters.at.get_mut(&namespace) {
                        at.lower(level);
                    }
                    return may_move;
                }
                Err(Refusal::NotReady)
            }
            // The partition is closed for another incarnation, or was deleted.
            Err(PartitionError::Closed) if !self.closing => Err(Refusal::NotReady),
            result => result.map_err(Refusal::Partition),
        };
        self.waiters.remove(namespace, &asker);
        self.end_wait(origin, namespace, when_ready, result);
        may_move
    }

    pub(crate) fn end_wait(
        &mut self,
        origin: Origin,
        namespace: Namespace,
        when_ready: WhenReady,
        result: Result<Response, Refusal>,
    ) {
        if when_ready == WhenReady::Notify {
            self.waiters.notifications.push((origin, namespace));
        } else {
            self.answers.push(PartitionAnswer {
                origin,
                namespace,
                result,
            });
        }
    }
}
