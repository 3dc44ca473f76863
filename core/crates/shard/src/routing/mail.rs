//! The way of a request to its partition: on this shard, on another one, or on another node.

use headrace_link::Refusal;
use headrace_model::Namespace;

use super::links::Links;
use crate::{
    api::Effect,
    calls::Mail,
    config::Hosting,
    hosting::{NotificationTarget, Partitions, Watcher},
    moment::Moment,
    owner::Owner,
};

/// Ways from this shard to all partitions. What comes back over them is taken from the partitions and the links later.
pub(crate) struct Ways<'a> {
    pub(crate) moment: Moment<'a>,
    pub(crate) links: &'a mut Links,
    pub(crate) partitions: &'a mut Partitions,
}

impl Ways<'_> {
    /// Return the owner of a partition according to the newest catalog.
    #[inline]
    pub(crate) fn owner(&mut self, namespace: Namespace) -> Owner {
        self.partitions.owner(self.moment.catalog, namespace)
    }

    /// Deliver a request for a partition to its `owner`.
    ///
    /// All requests that arise on this shard are routed to the place that answers them here.
    #[inline]
    pub(crate) fn carry(&mut self, owner: Owner, mail: Mail, effects: &mut Vec<Effect>) {
        match owner {
            Owner::Here => self.take(mail, effects),
            Owner::Shard(to) => effects.push(Effect::Mail { to, mail }),
            _ if is_asked_elsewhere(self.moment, owner) => {
                self.links.take(self.moment, mail, effects);
            }
            Owner::Remote { .. } => self.refuse_mail(&mail, Refusal::Elsewhere),
            Owner::Nowhere => self.refuse_mail(&mail, Refusal::Unavailable),
        }
    }

    /// Refuse locally: the request has no owner to forward to.
    fn refuse_mail(&mut self, mail: &Mail, refusal: Refusal) {
        match mail {
            Mail::Call(call) => self.partitions.refuse(call.origin, call.namespace, refusal),
            Mail::Wait(call) => {
                let when_ready = call.request.when_ready;
                self.partitions
                    .end_wait(call.origin, call.namespace, when_ready, Err(refusal));
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

    /// Take a request for a partition of this shard.
    pub(crate) fn take(&mut self, mail: Mail, effects: &mut Vec<Effect>) {
        let (catalog, now) = (self.moment.catalog, self.moment.now);
        match mail {
            Mail::Call(call) => self.partitions.submit(catalog, call, now, effects),
            Mail::Wait(call) => self.partitions.wait(catalog, call, now, effects),
            Mail::StopWaiting {
                origin,
                namespace,
                stop,
            } => self.partitions.stop_waiting(origin, namespace, stop),
            Mail::Watch {
                namespace,
                shard,
                seen,
            } => {
                let watcher = Watcher {
                    target: NotificationTarget::Shard(shard),
                    seen,
                    wants_openings: true,
                };
                self.partitions
                    .watch(catalog, namespace, watcher, now, effects);
            }
            Mail::Unwatch { namespace, shard } => {
                self.partitions
                    .unwatch(namespace, NotificationTarget::Shard(shard));
            }
            Mail::Answer(_)
            | Mail::MessagesAvailable { .. }
            | Mail::ViewChanged { .. }
            | Mail::Reclaim { .. }
            | Mail::MemoryAvailable => {
                debug_assert!(false, "answers go to shards");
            }
        }
    }
}

/// Return whether requests are forwarded to other nodes. A node forwards none: it returns the location of the
/// partition.
#[inline]
pub(crate) fn is_asked_elsewhere(moment: Moment<'_>, owner: Owner) -> bool {
    matches!(owner, Owner::Remote { .. } | Owner::Nowhere)
        && moment.config.hosting == Hosting::Nothing
}
