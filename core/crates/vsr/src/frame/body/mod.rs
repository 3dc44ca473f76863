//! Bodies of frames, per command.

mod check;
pub mod headers;
pub mod manifest;
pub mod multi;

pub(super) use check::check;
