//! Requests of clients: admission, answers, reads.

pub(super) mod admission;
mod intake;
mod read_index;
pub(super) mod reads;
pub(super) mod responder;
