//! Tests of entire frames.

mod bodies;
mod headers;
mod samples;
