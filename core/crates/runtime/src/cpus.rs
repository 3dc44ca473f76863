//! Number and placement of shards (SHARD-2).

mod allocation;
mod topology;

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

pub use allocation::{CpuAllocation, InvalidAllocation};

/// Processor of each shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    shards: Vec<Option<usize>>,
}

impl Placement {
    /// Compute the allocation from the setting `cpu_allocation` and the processors that this process may use.
    pub fn parse(setting: &str) -> Result<Self, InvalidAllocation> {
        let allocation: CpuAllocation = setting.parse()?;
        let machine = topology::Machine::detect();
        Ok(Self {
            shards: allocation.resolve(&machine)?,
        })
    }

    /// Processor that each shard is pinned to, by shard number; `None` if the kernel schedules it freely.
    ///
    /// Shards on every processor are not pinned unless the processors were named: other programs on the machine,
    /// clients first of all, would make a pinned shard wait for its processor while another one idles.
    pub fn shards(&self) -> &[Option<usize>] {
        &self.shards
    }
}

/// Pin the calling thread to one processor.
pub fn pin_current_thread(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}
