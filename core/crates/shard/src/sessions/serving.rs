//! Links of gateways with the partitions that serve them.

mod ends;
mod frames;

use crate::{hosting::Partitions, memory::usage::MemoryUse, moment::Moment, sessions::Sessions};

/// The links among the connections, with the partitions that serve them.
pub(crate) struct Serving<'a> {
    pub(crate) moment: Moment<'a>,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) partitions: &'a mut Partitions,
    pub(crate) memory: &'a MemoryUse,
}
