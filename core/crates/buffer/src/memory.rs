//! Memory behind a buffer.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use bytemuck::{Pod, Zeroable};

const PAGE_BYTES: usize = 4096;

/// A page, aligned for direct I/O and whole-page copies.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
pub(crate) struct Page([u8; PAGE_BYTES]);

/// Initialised memory of fixed size.
pub(crate) enum Memory {
    /// Memory of less than a page.
    Small(Box<[u8]>),
    /// Whole pages.
    Paged(Box<[Page]>),
    /// Memory allocated elsewhere, used as it is.
    External(Vec<u8>),
}

impl Memory {
    pub(crate) const fn empty() -> Self {
        Self::External(Vec::new())
    }

    /// Allocate zeroed memory. For large sizes the allocator returns untouched pages of the kernel.
    pub(crate) fn zeroed(size_bytes: usize) -> Self {
        if size_bytes.is_multiple_of(PAGE_BYTES) {
            Self::Paged(bytemuck::zeroed_slice_box(size_bytes / PAGE_BYTES))
        } else {
            Self::Small(vec![0; size_bytes].into_boxed_slice())
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Paged(pages) => bytemuck::must_cast_slice(pages),
            Self::External(bytes) => bytes,
        }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Paged(pages) => bytemuck::must_cast_slice_mut(pages),
            Self::External(bytes) => bytes,
        }
    }

    /// Size of the allocation in bytes.
    pub(crate) fn footprint_bytes(&self) -> usize {
        match self {
            Self::External(bytes) => bytes.capacity(),
            Self::Small(_) | Self::Paged(_) => self.bytes().len(),
        }
    }
}
