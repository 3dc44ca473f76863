//! Tests of frames as a whole.

mod bodies;
mod headers;
mod samples;
