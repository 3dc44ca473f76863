//! Memory that the process has freed, and gives back to the kernel.

pub(crate) mod freed_memory;
pub(crate) mod giving_back;
