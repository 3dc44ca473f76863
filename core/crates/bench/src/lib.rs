//! The load generator behind `headrace bench`.
//!
//! One thread and one blocking connection per actor, so that the generator uses as little of the machine as possible:
//! it usually shares it with the server. Messages are prepared once and sent repeatedly; the measured loops allocate
//! nothing. All actors connect and log in first, warm up together, and start together.
//!
//! The meaning of the results is documented at their definitions in [`BenchReport`]. [`null`] is the baseline: the cost
//! that remains if the server does nothing.
#![allow(
    clippy::disallowed_methods,
    reason = "a load generator reads clocks: it waits, paces and measures"
)]

mod config;
mod consumer;
mod gate;
pub mod null;
mod pace;
mod process_cpu;
mod producer;
mod progress;
mod report;
mod run;
mod target;

pub use config::{Amount, AtEnd, BenchConfig, Cursor, Mode, Placement, Setup};
pub use progress::{Phase, Progress, ProgressSnapshot};
pub use report::{ActorReport, BenchReport, CpuReport, GroupReport, LatencyReport};
pub use run::run;
