//! A gateway and the partition nodes behind it: shards as they are, joined by bytes.

mod machine;
mod process;
mod random;
mod transactions;
mod wire;
mod world;
