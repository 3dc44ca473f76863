//! Superblock: the state that a replica must never forget. It holds identity, view, start of the view's log, and
//! checkpoint.
//!
//! A superblock is stored four times, 16 KiB each. The host writes copies 0 and 1, syncs, writes copies 2 and 3, syncs,
//! and only then reports the superblock durable: at every moment one pair of copies is intact.

mod image;
mod open;
mod view;

#[cfg(test)]
mod tests;

pub use image::encode::{COPIES, COPY_BYTES, CopyError, SUPERBLOCK_BYTES, VERSION, checksum_copy};
pub use image::succession::SuccessionError;
pub use image::{Checkpoint, Superblock};
pub use open::{OpenError, Opened, open};
pub use view::RecordedView;
