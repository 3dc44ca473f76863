//! Consistency of a superblock, and monotonicity from one superblock to the next.

use thiserror::Error;

use super::Superblock;

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
            && self.log_view <= self.view
            && self.loss_view <= self.log_view
            && self.checkpoint.header.op() == self.checkpoint.op
            && !self.checkpoint.header.is_blank()
            && self.has_suffix()
    }

    /// Return whether the headers form a suffix: descending by one from the head, and linked where known.
    fn has_suffix(&self) -> bool {
        let Some(first) = self.view_headers.first() else {
            return false;
        };
        first.op() == self.view_head_op
            && self.view_headers.windows(2).all(|pair| {
                let (child, parent) = (&pair[0], &pair[1]);
                child.op().checked_sub(1) == Some(parent.op())
                    && (child.is_blank() || parent.is_blank() || child.parent() == parent.checksum)
            })
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
                (self.epoch, self.view) >= (previous.epoch, previous.view),
            ),
            (
                "log_view",
                (self.epoch, self.log_view) >= (previous.epoch, previous.log_view),
            ),
            ("loss_view", self.loss_view >= previous.loss_view),
            ("incarnation", self.incarnation >= previous.incarnation),
        ];
        for (name, holds) in grows {
            if !holds {
                return Err(SuccessionError::Backwards(name));
            }
        }
        // Only a declared loss may revert committed operations or the state.
        if self.loss_view == previous.loss_view {
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
