//! Tests of decoding messages to columns, encoding columns to batches, and damaged bytes.

mod damage;
mod decode;
mod digest;
mod encode;
mod layout;
mod messages;
mod reading;
