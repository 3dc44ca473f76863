//! Isolation of panics: a panic in a step of one partition ends that partition, not its shard (LOG-14).
//!
//! Such a step may leave the state inconsistent anywhere, so all of the partition's state is dropped, with everything
//! that was not yet handed to the host. Operations that the host executes own their buffers and complete by themselves;
//! the files are released after the last one. Requests without an answer are refused. The files on disk are as after a
//! crash, and the next startup recovers from them: until then the partition is out of service.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use headrace_log::Failure;
use headrace_model::{Level, Namespace, PartitionStatistics};
use headrace_partition::{Outbox, Partition, PartitionError};

use super::{HostingState, Partitions, lives::remove_directory, steps::Steps};
use crate::api::Effect;

/// Remains of a partition whose step panicked.
pub(super) struct Broken {
    pub(super) failure: Arc<Failure>,
    /// Action after the last operation has completed.
    pub(super) next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The partition remains out of service.
    Nothing,
    /// The directory is removed.
    Removal,
    /// The partition moves to another node.
    Departure,
}

impl Steps {
    /// Run a step of a partition. Returns `None` if the partition has no state for it, or after a panic: its state is
    /// then dropped.
    #[inline]
    pub(super) fn take<R>(
        &mut self,
        life: &mut HostingState,
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

    /// Open a partition. After a panic it is out of service.
    pub(super) fn open(
        &mut self,
        namespace: Namespace,
        statistics: &PartitionStatistics,
        open: impl FnOnce(&mut Outbox) -> Partition,
    ) -> HostingState {
        let outbox = &mut self.outbox;
        match catch_unwind(AssertUnwindSafe(|| open(outbox))) {
            Ok(partition) => HostingState::Open(Box::new(partition)),
            Err(panic) => {
                statistics.set_failed(true);
                self.broke(namespace, &*panic, Next::Nothing)
            }
        }
    }

    #[cold]
    fn end(&mut self, life: &mut HostingState, panic: &(dyn Any + Send)) {
        let Some(partition) = life.partition() else {
            return;
        };
        partition.statistics().set_failed(true);
        let next = match life {
            HostingState::Retiring(_) => Next::Removal,
            HostingState::Leaving(_) => Next::Departure,
            _ => Next::Nothing,
        };
        let torn = core::mem::replace(life, self.broke(partition.namespace(), panic, next));
        // Dropping only frees memory. Should it panic as well, the memory leaks.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(torn)));
    }

    fn broke(
        &mut self,
        namespace: Namespace,
        panic: &(dyn Any + Send),
        next: Next,
    ) -> HostingState {
        self.outbox = Outbox::default();
        self.broken.push(namespace);
        let reason = format!(
            "an internal error: {}; a restart recovers what is on disk",
            panic_message(panic)
        );
        HostingState::Broken(Broken {
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
    /// Refuse requests that broken partitions will not answer.
    #[cold]
    pub(super) fn settle_broken(&mut self, effects: &mut Vec<Effect>) {
        // Another partition may have filled the outbox.
        let kept = core::mem::take(&mut self.steps.outbox);
        for namespace in core::mem::take(&mut self.steps.broken) {
            let Some(hosted) = self.hosted.get_mut(&namespace) else {
                continue;
            };
            let HostingState::Broken(Broken { failure, .. }) = &hosted.state else {
                continue;
            };
            let error = PartitionError::Failed(Arc::clone(failure));
            effects.push(Effect::Report {
                level: Level::Error,
                message: error.to_string(),
            });
            hosted.agreed_version = None;
            let waiting = core::mem::take(&mut hosted.waiting);
            let answers = self.steps.origins.of(namespace);
            let answers = answers.map(|ticket| (ticket, Err(error.clone())));
            self.steps.outbox.responses = answers.collect();
            self.deliver(namespace, effects);
            for call in waiting {
                self.refuse(call.origin, namespace, error.clone().into());
            }
            self.end_waits(namespace, &error.into());
            self.mark_dirty(namespace);
            self.after_breaking(namespace, effects);
        }
        self.steps.outbox = kept;
    }

    /// Release the files of a broken partition after its last operation has completed.
    pub(super) fn after_breaking(&mut self, namespace: Namespace, effects: &mut Vec<Effect>) {
        let Some(hosted) = self.hosted.get_mut(&namespace) else {
            return;
        };
        let HostingState::Broken(Broken { next, .. }) = hosted.state else {
            return;
        };
        if hosted.operations > 0 {
            return;
        }
        effects.push(Effect::ReleaseFiles { namespace });
        match next {
            Next::Nothing => {}
            Next::Removal => {
                hosted.state = HostingState::Removing;
                effects.push(remove_directory(namespace, hosted.incarnation));
            }
            Next::Departure => hosted.state = HostingState::Elsewhere,
        }
    }
}

/// Return the message of a panic; the panic hook has printed the location.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
