//! Tests of the partition on a simulated disk: one file per group of rules, and a comparison with a simple model.

mod append;
mod clock;
mod companion_files;
mod damage;
mod damaged_stages;
mod directories;
mod failures;
mod footprint;
mod harm;
mod intents;
mod model;
mod plans;
mod polls;
mod recovery;
mod replication;
mod retention;
mod segments;
mod space;
mod stages;
mod support;
mod syncs;
mod transactions;
