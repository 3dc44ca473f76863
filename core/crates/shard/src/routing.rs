//! Ways of calls and answers between sessions and partitions: on this shard, to other shards, and over links.

pub(crate) mod links;
mod mail;
pub(crate) mod owner;
pub(crate) mod served;
pub(crate) mod waits;
pub(crate) mod watches;
