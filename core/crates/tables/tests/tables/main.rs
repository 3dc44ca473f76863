//! Tests of messages as record batches, and of record batches as messages.

mod batches;
mod codecs;
mod columns;
mod rows;
mod samples;
