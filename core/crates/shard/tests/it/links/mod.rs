//! A gateway's shard and the nodes that it sends calls to, connected by byte streams.

mod cases;
mod losses;
mod pressure;
mod random;
mod reading;
