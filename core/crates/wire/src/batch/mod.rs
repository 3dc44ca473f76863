//! Body of a `SendMessages`: an index block and the messages that it delimits.

mod builder;
mod validate;

pub use builder::{BatchBuilder, PushError};
pub use validate::validate;

/// Bytes of one entry of the index block: `u32 offset · u32 position · u64 timestamp`.
///
/// Clients write 0 for offset and timestamp; the position is the end of the message in the block of messages.
pub const INDEX_BYTES: usize = 16;
