//! Checker of numbers that must never decrease, and of bounds.

use super::violation::{Check, Violation};

/// Externally visible state of a replica after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaState {
    /// Number of starts.
    pub incarnation: u64,
    /// Current view.
    pub view: u32,
    /// View of the log.
    pub log_view: u32,
    /// Newest operation in the log.
    pub op: u64,
    /// Highest executed operation.
    pub commit_min: u64,
    /// Highest operation known to be committed.
    pub commit_max: u64,
    /// Operation of the durable checkpoint.
    pub checkpoint_op: u64,
    /// True for a primary in normal operation.
    pub is_primary: bool,
    /// Maximum number of uncommitted operations of a primary.
    pub pipeline_max: u64,
}

/// Observed states of one replica, across its starts.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    last: ReplicaState,
    durable_view: u32,
    durable_log_view: u32,
    durable_sequence: u64,
}

impl Progress {
    /// Check an observed state of the replica.
    pub fn check(&mut self, now: ReplicaState) -> Result<(), Violation> {
        let last = self.last;
        let same_start = last.incarnation == now.incarnation;
        let rules = [
            (
                now.log_view <= now.view,
                "the log is of a later view than the view",
            ),
            (
                now.commit_min <= now.commit_max,
                "executed beyond the commit point",
            ),
            (
                now.checkpoint_op <= now.commit_min,
                "a checkpoint of what was not executed",
            ),
            (
                now.checkpoint_op >= last.checkpoint_op,
                "the checkpoint went back",
            ),
            (!same_start || now.view >= last.view, "the view went back"),
            (
                !same_start || now.log_view >= last.log_view,
                "the view of the log went back",
            ),
            (
                !same_start || now.commit_min >= last.commit_min,
                "the executed operation went back",
            ),
            (
                !same_start || now.commit_max >= last.commit_max,
                "the commit point went back",
            ),
            (
                !now.is_primary || now.op <= now.commit_max + now.pipeline_max,
                "more uncommitted operations than the pipeline holds",
            ),
            (
                now.view >= self.durable_view,
                "the view went back behind the superblock",
            ),
            (
                now.log_view >= self.durable_log_view,
                "the view of the log went back behind the superblock",
            ),
        ];
        self.last = now;
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err(Violation::new(
                Check::Progress,
                format!("{what}: {last:?} then {now:?}"),
            )),
            None => Ok(()),
        }
    }

    /// Check the numbers of a superblock that became durable.
    pub fn persisted(&mut self, sequence: u64, view: u32, log_view: u32) -> Result<(), Violation> {
        if sequence <= self.durable_sequence
            || view < self.durable_view
            || log_view < self.durable_log_view
        {
            let what =
                format!("superblock {sequence} of view {view}, log {log_view} after {self:?}");
            return Err(Violation::new(Check::Progress, what));
        }
        (
            self.durable_sequence,
            self.durable_view,
            self.durable_log_view,
        ) = (sequence, view, log_view);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: ReplicaState = ReplicaState {
        incarnation: 1,
        view: 3,
        log_view: 3,
        op: 20,
        commit_min: 10,
        commit_max: 12,
        checkpoint_op: 8,
        is_primary: true,
        pipeline_max: 32,
    };

    fn then(now: ReplicaState) -> Result<(), Violation> {
        let mut progress = Progress::default();
        progress.persisted(1, 2, 2)?;
        progress.check(FIRST)?;
        progress.check(now)
    }

    #[test]
    fn moving_on_and_starting_again_are_accepted() {
        then(ReplicaState {
            view: 4,
            is_primary: false,
            ..FIRST
        })
        .unwrap();
        // Only durable state counts after a restart.
        then(ReplicaState {
            incarnation: 2,
            view: 2,
            log_view: 2,
            commit_min: 8,
            commit_max: 8,
            ..FIRST
        })
        .unwrap();
        // A log may be truncated.
        then(ReplicaState { op: 12, ..FIRST }).unwrap();
    }

    #[test]
    fn going_back_is_rejected() {
        for wrong in [
            ReplicaState {
                view: 2,
                log_view: 2,
                ..FIRST
            },
            ReplicaState {
                log_view: 4,
                ..FIRST
            },
            ReplicaState {
                commit_min: 9,
                ..FIRST
            },
            ReplicaState {
                commit_max: 11,
                ..FIRST
            },
            ReplicaState {
                commit_min: 13,
                ..FIRST
            },
            ReplicaState {
                checkpoint_op: 7,
                ..FIRST
            },
            ReplicaState {
                checkpoint_op: 11,
                ..FIRST
            },
            ReplicaState { op: 45, ..FIRST },
            ReplicaState {
                incarnation: 2,
                view: 1,
                log_view: 1,
                ..FIRST
            },
        ] {
            assert_eq!(
                then(wrong).expect_err("a fault").check,
                Check::Progress,
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn superblocks_move_on() {
        let mut progress = Progress::default();
        progress.persisted(1, 2, 1).unwrap();
        assert!(progress.clone().persisted(1, 2, 1).is_err());
        assert!(progress.clone().persisted(2, 1, 1).is_err());
        progress.persisted(2, 2, 2).unwrap();
    }
}
