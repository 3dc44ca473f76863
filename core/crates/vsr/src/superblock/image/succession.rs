//! Consistency of a superblock, and monotonicity from one superblock to the next.

use thiserror::Error;

use crate::superblock::Superblock;

/// Rule that a write of this superblock would violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SuccessionError {
    /// The superblock contradicts itself.
    #[error("the superblock contradicts itself")]
    Content,
    /// The superblock belongs to another replica.
    #[error("the superblock is of another replica")]
    Identity,
    /// A value that must never decrease has decreased.
    #[error("{0} would go backwards")]
    Backwards(&'static str),
}

impl Superblock {
    /// Return whether the fields agree with one another.
    pub fn is_consistent(&self) -> bool {
        usize::from(self.replica) < self.members.len()
            && self.sequence > 0
            && self.checkpoint.header.op() == self.checkpoint.op
            && !self.checkpoint.header.is_blank()
            && self.view.is_consistent()
    }

    /// Check that this superblock may replace `previous`.
    ///
    /// # Errors
    /// The first rule that the replacement would violate.
    pub fn check_succession(&self, previous: &Self) -> Result<(), SuccessionError> {
        if !self.is_consistent() {
            return Err(SuccessionError::Content);
        }
        let identity = |superblock: &Self| {
            let Self {
                cluster,
                group,
                node_id,
                ..
            } = *superblock;
            (cluster, group, node_id)
        };
        if identity(self) != identity(previous) {
            return Err(SuccessionError::Identity);
        }
        let grows = [
            ("sequence", self.sequence > previous.sequence),
            ("epoch", self.epoch >= previous.epoch),
            (
                "view",
                (self.epoch, self.view.number) >= (previous.epoch, previous.view.number),
            ),
            (
                "log_view",
                (self.epoch, self.view.log_view) >= (previous.epoch, previous.view.log_view),
            ),
            ("loss_view", self.view.loss_view >= previous.view.loss_view),
            ("incarnation", self.incarnation >= previous.incarnation),
        ];
        for (name, holds) in grows {
            if !holds {
                return Err(SuccessionError::Backwards(name));
            }
        }
        // Only a declared loss may revert committed operations or the state.
        if self.view.loss_view == previous.view.loss_view {
            if self.commit_max < previous.commit_max {
                return Err(SuccessionError::Backwards("commit_max"));
            }
            if self.checkpoint.op < previous.checkpoint.op {
                return Err(SuccessionError::Backwards("checkpoint"));
            }
        }
        Ok(())
    }
}
