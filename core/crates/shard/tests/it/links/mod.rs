//! A gateway's shard and the nodes that it asks, joined by bytes.

mod cases;
mod losses;
mod node;
mod pressure;
mod random;
mod reading;
mod world;
