//! Viewstamped Replication as a step function.
//!
//! The crate does no I/O, reads no clock and starts no thread. [`frame`] defines the format of messages and journal
//! records, [`superblock`] the state that must survive a crash, and [`journal`] the layout of the log in files and its
//! recovery after a crash. [`quorum`] and [`timeouts`] hold the parameters of the protocol. [`trust`] decides when the
//! vote of a replica with an empty data directory counts.
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
