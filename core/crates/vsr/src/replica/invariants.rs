//! Invariants, checked in every build. A violation stops the replica before any output of the step is released.

use crate::api::{FatalReason, Status};
use crate::frame::PIPELINE_MAX;
use crate::rules::Rules;

use crate::replica::{Flow, Replica};

/// Values before a step that must never decrease.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    view: u32,
    log_view: u32,
    commit_min: u64,
    commit_max: u64,
    checkpoint: u64,
    log_floor: u64,
}

fn must(holds: bool, rule: &'static str) -> Flow {
    if holds {
        Ok(())
    } else {
        Err(FatalReason::Invariant(rule))
    }
}

impl<R: Rules> Replica<R> {
    pub(super) fn marks(&self) -> Marks {
        Marks {
            view: self.view,
            log_view: self.log_view,
            commit_min: self.commit_min,
            commit_max: self.commit_max,
            checkpoint: self.checkpoint.op,
            log_floor: self.log_floor,
        }
    }

    /// Check the cheap invariants, after every step.
    pub(super) fn check_step(&self, before: Marks) -> Flow {
        must(self.view >= before.view, "the view never goes back")?;
        must(
            self.log_view >= before.log_view,
            "the log view never goes back",
        )?;
        must(self.log_view <= self.view, "the log view is not ahead")?;
        must(
            self.commit_min >= before.commit_min,
            "what is executed never goes back",
        )?;
        must(
            self.commit_max >= before.commit_max,
            "the commit point never goes back",
        )?;
        must(
            self.commit_min <= self.commit_max,
            "only what is committed is executed",
        )?;
        must(
            self.checkpoint.op >= before.checkpoint,
            "the checkpoint never goes back",
        )?;
        must(
            self.checkpoint.op <= self.commit_min,
            "a checkpoint is of what was executed",
        )?;
        must(
            self.log_floor >= before.log_floor,
            "the log's floor never goes back",
        )?;
        must(
            self.clients.len() <= self.config.clients_max,
            "the client table has a bound",
        )?;
        self.check_status()
    }

    fn check_status(&self) -> Flow {
        match self.status {
            Status::Normal | Status::Starting | Status::Adopting => must(
                self.log_view == self.view && self.commit_max <= self.head,
                "a decided log reaches its commit point",
            )?,
            Status::ViewChange => must(
                self.log_view < self.view,
                "a view without a log is not the log's view",
            )?,
            Status::Recovering | Status::Halted => {}
        }
        if self.leads() {
            must(
                self.head - self.commit_max <= PIPELINE_MAX,
                "the pipeline has a bound",
            )?;
            must(
                self.acks.iter().all(|ack| *ack <= self.head),
                "nothing above the head is acknowledged",
            )?;
        }
        Ok(())
    }

    /// Check all invariants, including those that walk the log: for tests and for inspection of a running replica.
    pub fn check_invariants(&self) -> Result<(), FatalReason> {
        self.check_step(self.marks())?;
        let verified = self.link_floor.max(self.checkpoint.op + 1);
        if self.in_log_view() {
            for op in verified + 1..=self.head {
                let (Some(header), Some(below)) = (self.log.header(op), self.log.header(op - 1))
                else {
                    return Err(FatalReason::Invariant("the verified log has no gap"));
                };
                must(
                    header.parent() == below.checksum,
                    "the verified log is a chain",
                )?;
                must(
                    header.area.timestamp_ns > below.area.timestamp_ns,
                    "timestamps grow along the log",
                )?;
            }
        }
        for (op, slot) in self.log.slots() {
            must(slot.header.op() == op, "a slot holds its own operation")?;
            must(!slot.header.is_blank(), "a slot holds a prepare")?;
            must(
                slot.frame
                    .as_ref()
                    .is_none_or(|frame| frame.header.checksum == slot.header.checksum),
                "a slot holds its own body",
            )?;
        }
        Ok(())
    }
}
