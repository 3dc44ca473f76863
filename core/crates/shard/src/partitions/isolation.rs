//! A panic in a step of one partition ends that partition, not its shard (LOG-14).
//!
//! What such a step leaves behind may be torn anywhere, so all of the partition's state is dropped, with everything that
//! it had not handed to the host yet. Operations that the host executes own their buffers and end by themselves; the
//! files are released after the last one. What was asked for and has no answer yet is refused. On disk lies what a crash
//! would have left, and the next start recovers from it: until then the partition is out of service.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use headrace_log::Failure;
use headrace_model::{Namespace, PartitionStatistics};
use headrace_partition::{Outbox, Partition, PartitionError};

use super::{Life, Partitions};
use crate::api::Effect;

/// The end of a partition in whose step there was a panic.
pub(super) struct Broken {
    pub(super) failure: Arc<Failure>,
    /// What follows when its operations have ended.
    pub(super) next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It stays out of service.
    Nothing,
    /// Its folder goes.
    Removal,
    /// It goes to another node.
    Departure,
}

/// The steps of the partitions.
#[derive(Default)]
pub(super) struct Steps {
    /// What the partition that was called last wants done and has answered.
    pub(super) outbox: Outbox,
    /// Partitions that have broken and are not settled.
    broken: Vec<Namespace>,
}

impl Steps {
    /// Has a partition take a step. None when it has no state to do so, or there was a panic: then it has none any more.
    #[inline]
    pub(super) fn take<R>(
        &mut self,
        life: &mut Life,
        step: impl FnOnce(&mut Partition, &mut Outbox) -> R,
    ) -> Option<R> {
        let partition = life.partition_mut()?;
        let outbox = &mut self.outbox;
        match catch_unwind(AssertUnwindSafe(|| step(partition, outbox))) {
            Ok(result) => Some(result),
            Err(panic) => {
                self.end(life, &*panic);
                None
            }
        }
    }

    /// Opens a partition. A panic makes one of it that is out of service.
    pub(super) fn open(
        &mut self,
        namespace: Namespace,
        statistics: &PartitionStatistics,
        open: impl FnOnce(&mut Outbox) -> Partition,
    ) -> Life {
        let outbox = &mut self.outbox;
        match catch_unwind(AssertUnwindSafe(|| open(outbox))) {
            Ok(partition) => Life::Open(Box::new(partition)),
            Err(panic) => {
                statistics.set_failed(true);
                self.broke(namespace, &*panic, Next::Nothing)
            }
        }
    }

    #[cold]
    fn end(&mut self, life: &mut Life, panic: &(dyn Any + Send)) {
        let Some(partition) = life.partition() else {
            return;
        };
        partition.statistics().set_failed(true);
        let next = match life {
            Life::Retiring(_) => Next::Removal,
            Life::Leaving(_) => Next::Departure,
            _ => Next::Nothing,
        };
        let torn = core::mem::replace(life, self.broke(partition.namespace(), panic, next));
        // Dropping it frees memory and nothing else; should even that panic, the memory is lost.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(torn)));
    }

    fn broke(&mut self, namespace: Namespace, panic: &(dyn Any + Send), next: Next) -> Life {
        self.outbox = Outbox::default();
        self.broken.push(namespace);
        let reason = format!(
            "an internal error: {}; a restart recovers what is on disk",
            panic_message(panic)
        );
        Life::Broken(Broken {
            failure: Arc::new(Failure {
                namespace,
                readable: false,
                reason,
            }),
            next,
        })
    }

    pub(super) fn have_broken(&self) -> bool {
        !self.broken.is_empty()
    }
}

impl Partitions {
    /// Refuse what partitions that have broken will not answer any more.
    #[cold]
    pub(super) fn settle_broken(&mut self, effects: &mut Vec<Effect>) {
        // Another partition may have filled it.
        let kept = core::mem::take(&mut self.steps.outbox);
        for namespace in core::mem::take(&mut self.steps.broken) {
            let Some(hosted) = self.hosted.get_mut(&namespace) else {
                continue;
            };
            let Life::Broken(Broken { failure, .. }) = &hosted.life else {
                continue;
            };
            let error = PartitionError::Failed(Arc::clone(failure));
            effects.push(Effect::Report {
                message: error.to_string(),
            });
            hosted.agreed_version = None;
            let waiting = core::mem::take(&mut hosted.waiting);
            let answers = self.origins.of(namespace);
            let answers = answers.map(|ticket| (ticket, Err(error.clone())));
            self.steps.outbox.answers = answers.collect();
            self.deliver(namespace, effects);
            for (origin, _) in waiting {
                self.refuse(origin, namespace, error.clone().into());
            }
            self.send_waiters_away(namespace, &error.into());
            self.after_breaking(namespace, effects);
        }
        self.steps.outbox = kept;
    }

    /// Release the files of one that has broken, when its last operation has ended.
    pub(super) fn after_breaking(&mut self, namespace: Namespace, effects: &mut Vec<Effect>) {
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        let Life::Broken(Broken { next, .. }) = hosted.life else {
            return;
        };
        if hosted.operations > 0 {
            return;
        }
        effects.push(Effect::ReleaseFiles { namespace });
        match next {
            Next::Nothing => {}
            Next::Removal => {
                hosted.life = Life::Removing;
                effects.push(Effect::RemoveFolder { namespace });
            }
            Next::Departure => hosted.life = Life::Away,
        }
    }
}

/// What a panic said; the place is in what its hook printed.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
