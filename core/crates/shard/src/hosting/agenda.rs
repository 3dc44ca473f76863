//! Partitions that need attention: those with a deadline, those with waiting requests, and the counts of the others.
//!
//! An idle partition costs nothing here, however many there are: everything is updated at the end of a turn that changed
//! a partition, and nothing walks all of them.

use std::collections::BTreeSet;

use headrace_model::Namespace;
use headrace_partition::Partition;

use super::{HostedPartition, HostingState, deadlines::Deadlines};

/// Counts of the partitions that need an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Troubles {
    /// Number of partitions that are read-only or out of service for another reason than `foreign`.
    pub failed: usize,
    /// Number of other partitions with a file beside the log that cannot be written or read at present.
    pub failing_files: usize,
    /// Number of partitions that are out of service because their directory is another's.
    pub foreign: usize,
    /// Number of files that were set aside in the directories of partitions.
    pub set_aside_files: usize,
}

/// Need for an operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Trouble {
    #[default]
    None,
    /// A file beside the log cannot be written or read at present.
    FailingFile,
    /// The partition is read-only or out of service.
    Failed,
    /// The partition is out of service because its directory is another's.
    Foreign,
}

impl Trouble {
    fn of(state: &HostingState) -> Self {
        match state {
            HostingState::Open(partition) if partition.is_foreign() => Self::Foreign,
            HostingState::Open(partition) if partition.failure().is_some() => Self::Failed,
            HostingState::Open(partition) if partition.failing_file().is_some() => {
                Self::FailingFile
            }
            HostingState::Broken(_) => Self::Failed,
            _ => Self::None,
        }
    }
}

/// State of one partition as it is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    is_elsewhere: bool,
    is_recovering: bool,
    trouble: Trouble,
    set_aside_files: usize,
    stages: usize,
    staged_bytes: u64,
}

impl Counted {
    fn of(state: &HostingState) -> Self {
        let partition = state.partition();
        let is_recovering =
            |partition: &Partition| !partition.is_open() && partition.failure().is_none();
        Self {
            is_elsewhere: matches!(state, HostingState::Elsewhere),
            is_recovering: matches!(state, HostingState::Open(partition) if is_recovering(partition)),
            trouble: Trouble::of(state),
            set_aside_files: partition.map_or(0, Partition::set_aside_count),
            stages: partition.map_or(0, Partition::stages_count),
            staged_bytes: partition.map_or(0, Partition::staged_bytes),
        }
    }
}

/// Deadlines, and sums over all partitions.
#[derive(Default)]
pub(super) struct Agenda {
    /// Times at which partitions have to run, or earlier ones: a deadline that becomes later is moved when the earlier
    /// one has passed, because the deadlines of busy partitions move with every turn.
    pub(super) deadlines: Deadlines,
    /// Times by the trusted clock from which retention may have something to do.
    pub(super) retentions: Deadlines,
    /// Partitions with requests that wait for memory.
    pub(super) waiting: BTreeSet<Namespace>,
    pub(super) failing: BTreeSet<Namespace>,
    pub(super) with_stages: BTreeSet<Namespace>,
    elsewhere: usize,
    recovering: usize,
    troubles: Troubles,
    stages: usize,
    staged_bytes: u64,
}

impl Agenda {
    /// Number of partitions that are on another node, and of those that recover.
    pub(super) const fn progress(&self) -> (usize, usize) {
        (self.elsewhere, self.recovering)
    }

    /// Number of staged batches, and the bytes of their files.
    pub(super) const fn staged(&self) -> (usize, u64) {
        (self.stages, self.staged_bytes)
    }

    /// Count the partitions that need an operator.
    pub(super) const fn troubles(&self) -> Troubles {
        self.troubles
    }

    /// Note the state and the deadlines of a partition.
    pub(super) fn follow(&mut self, namespace: Namespace, hosted: &mut HostedPartition) {
        let counted = Counted::of(&hosted.state);
        self.count(namespace, &mut hosted.counted, counted);
        let deadline = hosted.state.partition().and_then(Partition::next_deadline);
        if let Some(deadline) = deadline
            && hosted.deadline.is_none_or(|noted| deadline < noted)
        {
            self.deadlines
                .set(namespace, &mut hosted.deadline, Some(deadline));
        }
        let due = match (&hosted.state, &hosted.retention) {
            (HostingState::Open(partition), Some(rule)) => partition.retention_due(rule),
            _ => None,
        };
        self.retentions
            .set(namespace, &mut hosted.retention_due, due);
    }

    /// Forget a partition.
    pub(super) fn forget(&mut self, namespace: Namespace, hosted: &mut HostedPartition) {
        self.count(namespace, &mut hosted.counted, Counted::default());
        self.deadlines.set(namespace, &mut hosted.deadline, None);
        self.retentions
            .set(namespace, &mut hosted.retention_due, None);
    }

    fn count(&mut self, namespace: Namespace, before: &mut Counted, now: Counted) {
        if *before == now {
            return;
        }
        self.elsewhere -= usize::from(before.is_elsewhere);
        self.elsewhere += usize::from(now.is_elsewhere);
        self.recovering -= usize::from(before.is_recovering);
        self.recovering += usize::from(now.is_recovering);
        for (trouble, count) in [
            (Trouble::FailingFile, &mut self.troubles.failing_files),
            (Trouble::Failed, &mut self.troubles.failed),
            (Trouble::Foreign, &mut self.troubles.foreign),
        ] {
            *count -= usize::from(before.trouble == trouble);
            *count += usize::from(now.trouble == trouble);
        }
        self.troubles.set_aside_files -= before.set_aside_files;
        self.troubles.set_aside_files += now.set_aside_files;
        self.stages -= before.stages;
        self.stages += now.stages;
        self.staged_bytes -= before.staged_bytes;
        self.staged_bytes += now.staged_bytes;
        note(&mut self.failing, namespace, now.trouble != Trouble::None);
        note(&mut self.with_stages, namespace, now.stages > 0);
        *before = now;
    }
}

fn note(set: &mut BTreeSet<Namespace>, namespace: Namespace, is_member: bool) {
    if is_member {
        set.insert(namespace);
    } else {
        set.remove(&namespace);
    }
}

#[cfg(test)]
mod tests;
