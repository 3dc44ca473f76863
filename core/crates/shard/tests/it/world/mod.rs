//! Parts of a host without a machine, for every world.

pub mod files;
pub mod node;
