//! What a replica must not forget: its identity, its view, the log that the view began with, its checkpoint.
//!
//! A superblock is stored four times, 16 KiB each. The host writes copies 0 and 1, syncs, writes copies 2 and 3, syncs,
//! and only then says that it is durable: at every moment one pair is whole.

mod encode;
mod image;
mod open;
mod succession;

#[cfg(test)]
mod tests;

pub use encode::{COPIES, COPY_BYTES, CopyError, SUPERBLOCK_BYTES, VERSION, checksum_copy};
pub use image::{Checkpoint, Superblock};
pub use open::{OpenError, Opened, open};
pub use succession::SuccessionError;
