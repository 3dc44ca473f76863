//! Which shards there are and where they run (SHARD-2).

mod allocation;
mod topology;

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

pub use allocation::{CpuAllocation, InvalidAllocation};

/// Where each shard runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    shards: Vec<Option<usize>>,
}

impl Placement {
    /// Decide by the setting `cpu_allocation` and the processors that this process may use.
    pub fn parse(setting: &str) -> Result<Self, InvalidAllocation> {
        let allocation: CpuAllocation = setting.parse()?;
        let machine = topology::Machine::detect();
        Ok(Self {
            shards: allocation.resolve(&machine)?,
        })
    }

    /// By shard: the processor that it is pinned to, or `None` when it runs where the system likes.
    ///
    /// Shards on every processor are not pinned unless the processors were named: what else runs on the machine, clients first of
    /// all, would make a pinned shard wait for its processor while another one idles.
    pub fn shards(&self) -> &[Option<usize>] {
        &self.shards
    }
}

/// Keep the calling thread on one processor.
pub fn pin_current_thread(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}
