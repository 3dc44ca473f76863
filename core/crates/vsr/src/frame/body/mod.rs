//! Bodies of frames, per command.

mod check;
pub mod headers;
pub mod heartbeats;
pub mod manifest;
pub mod multi;
pub mod progress;

pub(super) use check::check;
