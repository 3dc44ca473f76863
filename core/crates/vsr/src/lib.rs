//! Viewstamped Replication as a step function.
//!
//! Nothing here does input or output, reads a clock or starts a thread. Formats come first: [`frame`] is what goes
//! over the wire and into the journal, [`superblock`] what a replica must not forget, [`journal`] how its log lies in
//! files and is read back after a crash. [`quorum`] and [`timeouts`] are the numbers that the protocol runs on. [`trust`] says when the
//! word of a replica with an empty folder counts.
#![no_std]

extern crate alloc;

pub mod api;
pub mod clients;
pub mod clocks;
pub mod frame;
pub mod journal;
pub mod neighbours;
pub mod quorum;
pub mod replica;
pub mod rules;
pub mod superblock;
pub mod timeouts;
pub mod trust;
