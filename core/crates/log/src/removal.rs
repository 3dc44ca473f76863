//! Removal of segments: retention, deletion, purging.

pub(crate) mod remove;
pub(crate) mod retention;
