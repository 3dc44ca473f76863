//! Pooled, page-aligned byte buffers and shared slices of them.
//!
//! A [`Buffer`] has one owner and is passed by value; [`Buffer::freeze`] turns it into a [`Slice`] that any number of
//! readers share. A [`Block`] is in between: its owner can append to it while no slice of it is alive. The memory
//! returns to its [`BufferPool`] when the last of them is dropped, on any thread.
#![no_std]

extern crate alloc;

mod block;
mod buffer;
mod classes;
mod holding;
mod memory;
mod pool;
mod slice;

pub use block::Block;
pub use buffer::Buffer;
pub use classes::{CLASS_COUNT, class_size_bytes};
pub use holding::{MemoryAccount, Purpose};
pub use pool::{BufferPool, IdleMemory, PoolExhausted, PoolStatistics};
pub use slice::Slice;
