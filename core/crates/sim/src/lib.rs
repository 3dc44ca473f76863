//! The deterministic host of the replication core, and of the production host around it: real replicas on simulated disks, networks and clocks.
//!
//! A run is a function of the program and a [`scenario::Scenario`], which follows from a seed: configuration
//! ([`options`], whole features are off in some runs), planned faults ([`plan`]) and, by counter-based draws
//! ([`random`]), the fate of every frame and disk request. The same scenario gives the same trace, bit for bit; taking a
//! fault away leaves all other fates as they were, so that a failure can be made small ([`shrink`]).
//!
//! A run has two phases. First everything may go wrong, within what a group of replicas must survive: each committed
//! operation keeps a clean copy, and one pair of superblock copies stays whole. Then all heals, and those that go on (a
//! bare quorum in some runs) must answer every client and converge.
//!
//! | what is judged | by |
//! | --- | --- |
//! | every replica executes one list of operations; equal states after each; nothing twice | [`checker::Canon`] |
//! | answers and reads fit one order that respects real time; what was acknowledged is there | [`checker::History`] |
//! | the same once more in one run of twenty, by a search for an order of each name's calls, without the log's numbers | [`checker::search`] |
//! | what is damaged is said to be so by the one that reads it, and nothing else is | [`checker::Causes`] |
//! | views, commit points and superblocks never go back; bounds hold | [`checker::Progress`] |
//! | no timestamp is ahead of all clocks that are right; after healing all replicas know the time | the cluster itself |
//! | no replica meets a command that its release does not know, and none is shut out that was not asked | the cluster itself |
//! | tokens, proposals and reads end exactly once | the cluster itself |
//! | answers and convergence after healing | the end of a run |
//! | after a clean end of the production host nothing is half-made, and a start finds all of the log | the end of a run |
//!
//! The state machine is a small one of the simulator's own, or any program that speaks over a pipe ([`machine`]): so the
//! metadata service's state machine, written in another language, runs under the same faults. A machine that is never
//! restarted then executes everything beside the replicas, and says what their answers and states have to be.
//!
//! The production host (`crates/replica`) runs under the same faults and judges ([`run::run_host`]): its threads are steps of
//! the run, and its files, connections, clocks and chance are simulated.
//!
//! That the judges would notice is shown by planted bugs ([`mutants`]): a broken rule of the replica, or a host that
//! leaves a sync out. Production code has no switch for either.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod checker;
pub mod client;
pub mod clock;
mod cluster;
pub mod disk;
mod host;
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
