//! Execution of committed operations: in order, only if linked and intact, one at a time (VRR 4.1, steps 5 to 7).

use crate::api::{FatalReason, Output, Status};
use crate::rules::Rules;

use crate::replica::{Flow, Replica};

/// Number of executed operations whose bodies stay in memory, for replicas that lag slightly behind.
const CACHED_OPS: u64 = 64;

impl<R: Rules> Replica<R> {
    /// Record that operations up to `commit` are committed.
    pub(in crate::replica) fn learn_commit(&mut self, commit: u64) {
        if commit > self.commit_max {
            self.commit_max = commit;
        }
    }

    /// Execute the next operation if its header is verified and its body is available.
    pub(in crate::replica) fn advance(&mut self) -> Flow {
        self.link()?;
        self.execute_next()?;
        self.try_start()
    }

    fn execute_next(&mut self) -> Flow {
        if !self.in_log_view() || self.executing.is_some() || self.installing() {
            return Ok(());
        }
        if self.commit_min >= self.commit_max {
            return Ok(());
        }
        let op = self.commit_min + 1;
        if !self.rules.verified(op, self.link_floor) || !self.log.is_available(op) {
            return Ok(());
        }
        if let Some(frame) = self.log.frame(op).cloned() {
            self.execute(&frame)
        } else {
            self.load(op);
            Ok(())
        }
    }

    /// Process the completed execution of an operation.
    pub(in crate::replica) fn executed(&mut self, op: u64) -> Flow {
        if op != self.commit_min + 1 || op > self.commit_max {
            return Err(FatalReason::Invariant("operations are executed in order"));
        }
        self.commit_min = op;
        self.timers.repair_sync.backoff.reset();
        if self.status == Status::Normal && self.config.replica_count > 1 {
            self.arm_repair_sync();
        }
        self.try_install();
        self.consider_checkpoint();
        self.shrink_cache();
        self.advance()
    }

    pub(in crate::replica) fn shrink_cache(&mut self) {
        if let Some(op) = self.commit_min.checked_sub(CACHED_OPS) {
            self.log.uncache_through(op);
        }
    }

    /// Read a body from the journal into memory, once.
    pub(in crate::replica) fn load(&mut self, op: u64) {
        let Some(checksum) = self.log.header(op).map(|header| header.checksum) else {
            return;
        };
        if self.body_repair.is_loading(op) {
            return;
        }
        let token = self.token();
        self.body_repair.loading(token, op, checksum);
        self.out.push(Output::Read {
            token,
            op,
            checksum,
        });
    }
}
