//! Isolation of panics: a panic in a step of one partition ends that partition, not its shard (LOG-14).
//!
//! Such a step may leave the state inconsistent anywhere, so all of the partition's state is dropped, with everything
//! that was not yet handed to the host. Operations that the host executes own their buffers and complete by themselves;
//! the files are released after the last one. Requests without an answer are refused. The files on disk are as after a
//! crash, and the next startup recovers from them: until then the partition is out of service.

use std::sync::Arc;

use headrace_model::{Level, Namespace};
use headrace_partition::PartitionError;

use super::{
    HostingState, Partitions,
    state::{Broken, Next, remove_directory},
};
use crate::api::Effect;

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
            let answers = answers.map(|request_id| (request_id, Err(error.clone())));
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
