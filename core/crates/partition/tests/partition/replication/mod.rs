//! Needs of replication: runs of a leader's messages, the committed end, truncation, digests of ranges.

mod committed;
mod digests;
mod model;
mod runs;
mod truncation;
