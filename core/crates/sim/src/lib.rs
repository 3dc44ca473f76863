//! Deterministic simulator of the replication core, and of the production host around it: real replicas on simulated
//! disks, networks and clocks.
//!
//! A run is a function of the program and a [`scenario::Scenario`], which is derived from a seed: configuration
//! ([`options`]; whole features are off in some runs), planned faults ([`plan`]) and, by counter-based draws
//! ([`random`]), the fate of every frame and disk request. The same scenario yields the same trace, bit for bit.
//! Removing a fault leaves all other fates unchanged, so that a failing run can be minimized ([`shrink`]).
//!
//! A run has two phases. In the first one any fault may occur that a group of replicas must survive: each committed
//! operation keeps an intact copy, one pair of superblock copies stays intact, and no checkpoint is damaged while the
//! votes of another member do not count yet. In the second phase all faults end, and the remaining members (a minimal
//! quorum in some runs) must answer every client and converge.
//!
//! | property | checked by |
//! | --- | --- |
//! | every replica executes one list of operations; equal states after each; no operation twice | [`checker::Canon`] |
//! | answers and reads fit one order that respects real time; acknowledged operations are not lost | [`checker::History`] |
//! | the same in one run of twenty, by a search for an order of each name's calls, without the log's numbers | [`checker::search`] |
//! | damage is reported by the replica that reads it, and no alarm is raised without a cause | [`checker::Causes`] |
//! | views, commit numbers and superblocks never go back; bounds hold | [`checker::Progress`] |
//! | no timestamp is ahead of all correct clocks; after healing all replicas have synchronized clocks | the cluster itself |
//! | no replica gets a command unknown to its release, or is locked out by a release that it has never run | the cluster itself |
//! | tokens, proposals and reads complete exactly once | the cluster itself |
//! | answers and convergence after healing | the end of a run |
//! | after a clean shutdown of the production host no file is incomplete, and a start finds the complete log | the end of a run |
//!
//! The state machine is a small one of the simulator, or any program that communicates over a pipe ([`machine`]): thus
//! the metadata service's state machine, written in another language, runs under the same faults. A machine that is
//! never restarted executes everything in parallel to the replicas, and yields the expected answers and states.
//!
//! A group is made of one kind of node, and `cluster` is the same for all kinds: clients, network, clocks, planned
//! faults, older copies of directories, and both phases. `cluster::bare` nodes run the core on a host of the
//! simulator's own. `cluster::host` nodes run the production host (`crates/replica`, [`run::run_host`]): its threads
//! are steps of the run, and its files, connections, clocks and randomness are simulated. Another kind is what
//! implements `cluster::Kind`.
//!
//! Planted bugs ([`mutants`]) show that the checkers detect errors: a broken rule of the replica, or a host that omits
//! a sync. Production code has no switch for either.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod checker;
pub mod client;
pub mod clock;
mod cluster;
pub mod disk;
pub mod jobs;
pub mod machine;
pub mod mutants;
pub mod network;
pub mod options;
pub mod plan;
pub mod random;
pub mod run;
pub mod scenario;
pub mod schedule;
pub mod shrink;
pub mod tally;
pub mod trace;
