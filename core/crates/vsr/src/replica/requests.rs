//! Requests of clients: admission, replies, reads.

pub(super) mod admission;
pub(super) mod reads;
pub(super) mod replies;
