//! What replication needs of a log: runs of a leader's messages, the committed end, truncation, digests of ranges.

mod committed;
mod digests;
mod runs;
