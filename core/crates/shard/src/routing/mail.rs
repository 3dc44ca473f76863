//! Mail between the shards of a process.

use headrace_link::Refusal;
use headrace_model::Namespace;
use headrace_partition::{PartitionError, ReadError};

use crate::{
    Shard,
    api::{Effect, Mail, PartitionAnswer},
    hosting::{NotificationTarget, Watcher},
    owner::Owner,
};

impl Shard {
    /// Return the owner of a partition according to the newest catalog.
    #[inline]
    pub(crate) fn owner(&mut self, namespace: Namespace) -> Owner {
        self.partitions.owner(self.catalog.load(), namespace)
    }

    /// Deliver a request for a partition to its `owner`.
    ///
    /// All requests that arise on this shard are routed to the place that answers them here.
    #[inline]
    pub(crate) fn route_mail(&mut self, owner: Owner, mail: Mail, effects: &mut Vec<Effect>) {
        match owner {
            Owner::Here => self.take_mail(mail, effects),
            Owner::Shard(to) => effects.push(Effect::Mail { to, mail }),
            _ if self.is_asked_elsewhere(owner) => self.ask_node(mail, effects),
            Owner::Remote { .. } => self.refuse_mail(&mail, Refusal::Elsewhere),
            Owner::Nowhere => self.refuse_mail(&mail, Refusal::Unavailable),
        }
    }

    /// Refuse locally: the request has no owner to forward to.
    fn refuse_mail(&mut self, mail: &Mail, refusal: Refusal) {
        match mail {
            Mail::Call(call) => (self.partitions).refuse(call.origin, call.namespace, refusal),
            Mail::Wait(call) => {
                let when_ready = call.request.when_ready;
                (self.partitions).end_wait(call.origin, call.namespace, when_ready, Err(refusal));
            }
            // The former owner has answered the waiting polls and watches, or will answer them.
            Mail::StopWaiting { .. } | Mail::Watch { .. } | Mail::Unwatch { .. } => {}
            Mail::Answer(_)
            | Mail::MessagesAvailable { .. }
            | Mail::ViewChanged { .. }
            | Mail::Reclaim { .. }
            | Mail::MemoryAvailable => {
                debug_assert!(false, "answers go to shards");
            }
        }
    }

    pub(crate) fn take_mail(&mut self, mail: Mail, effects: &mut Vec<Effect>) {
        let now = self.now;
        match mail {
            Mail::Call(call) => {
                let catalog = self.catalog.load();
                self.partitions.submit(catalog, call, now, effects);
            }
            Mail::Answer(answer) => self.deliver_answer(answer, effects),
            Mail::Wait(call) => {
                let catalog = self.catalog.load();
                self.partitions.wait(catalog, call, now, effects);
            }
            Mail::StopWaiting {
                origin,
                namespace,
                stop,
            } => self.partitions.stop_waiting(origin, namespace, stop),
            Mail::MessagesAvailable { origin, namespace } => {
                self.wait_notified(origin, namespace, effects);
            }
            Mail::Watch {
                namespace,
                shard,
                seen,
            } => {
                let catalog = self.catalog.load();
                let watcher = Watcher {
                    target: NotificationTarget::Shard(shard),
                    seen,
                    wants_openings: true,
                };
                (self.partitions).watch(catalog, namespace, watcher, now, effects);
            }
            Mail::Unwatch { namespace, shard } => {
                self.partitions
                    .unwatch(namespace, NotificationTarget::Shard(shard));
            }
            Mail::ViewChanged { namespace, view } => self.watch_notified(namespace, view),
            Mail::Reclaim { bytes, held_bytes } => self.partitions.reclaim(bytes, held_bytes),
            // Handled by `end_of_turn`.
            Mail::MemoryAvailable => {}
        }
    }

    /// Deliver answers of this shard's partitions and of other nodes to their destinations.
    pub(crate) fn deliver_answers(&mut self, effects: &mut Vec<Effect>) {
        while self.partitions.has_answers() || self.routing.links.has_events() {
            if self.routing.links.has_events() {
                self.deliver_link_events(effects);
            }
            for (origin, namespace) in self.partitions.take_wakeups() {
                if origin.shard == self.config.shard {
                    if !self.notify_link(origin) {
                        self.wait_notified(origin, namespace, effects);
                    }
                } else {
                    effects.push(Effect::Mail {
                        to: origin.shard,
                        mail: Mail::MessagesAvailable { origin, namespace },
                    });
                }
            }
            for (whom, namespace, view) in self.partitions.take_view_changes() {
                match (whom, view) {
                    (NotificationTarget::Link(key), view) => {
                        self.notify_link_view(key, namespace, view);
                    }
                    (NotificationTarget::Shard(shard), Some(view))
                        if shard == self.config.shard =>
                    {
                        self.watch_notified(namespace, view);
                    }
                    (NotificationTarget::Shard(to), Some(view)) => {
                        let mail = Mail::ViewChanged { namespace, view };
                        effects.push(Effect::Mail { to, mail });
                    }
                    // Watchers on this shard get the change from the catalog.
                    (NotificationTarget::Shard(_), None) => {}
                }
            }
            let mut answers = self.partitions.take_answers();
            for answer in answers.drain(..) {
                let to = answer.origin.shard;
                if to == self.config.shard {
                    self.deliver_answer(answer, effects);
                } else {
                    let mail = Mail::Answer(answer);
                    effects.push(Effect::Mail { to, mail });
                }
            }
            self.partitions.recycle_answers(answers);
        }
    }

    /// Deliver a partition's answer to the waiting request, the connection or the link that has called it.
    pub(crate) fn deliver_answer(&mut self, answer: PartitionAnswer, effects: &mut Vec<Effect>) {
        let (origin, namespace) = (answer.origin, answer.namespace);
        if self.routing.waits.has_asked(&origin) {
            return self.wait_answered(answer, effects);
        }
        let explanation = self.explanation(namespace, &answer.result);
        let Some(connection) = self.sessions.get_mut(origin.connection) else {
            return;
        };
        if connection.gateway_link.is_some() {
            return self.answer_link(answer);
        }
        if let Err(Refusal::Partition(PartitionError::Read(ReadError::TooLarge { bytes }))) =
            answer.result
        {
            return self.poll_again(origin.connection, bytes, effects);
        }
        crate::dispatch::encode_partition_answer(
            &mut connection.pipeline,
            origin.sequence,
            namespace,
            answer.result,
            explanation.as_deref(),
        );
        self.sessions.touch(origin.connection);
    }
}
