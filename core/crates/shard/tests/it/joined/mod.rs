//! A gateway and the partition nodes behind it: real shards, connected by byte streams.

mod machine;
mod random;
mod transactions;
