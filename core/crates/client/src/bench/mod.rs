//! The load generator behind `headrace bench`.
//!
//! One thread and one blocking connection per actor, so that the generator costs as little of the machine as it
//! can: it usually shares it with the server. Messages are prepared once and sent again and again; the loops that
//! are measured allocate nothing. All actors connect and log in first, warm up together, and start together.
//!
//! What the figures mean is said where they are defined, in [`BenchReport`]. [`null`] is the yardstick: what is left
//! when the server does nothing.

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
