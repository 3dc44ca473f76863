//! Links of gateways to the shards of a node.

mod lag;
mod measures;
mod opening;
pub mod peer;
mod random;
mod requests;
mod waiting;
