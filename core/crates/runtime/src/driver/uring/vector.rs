//! I/O vectors in the form that ring entries point to.

use headrace_model::limits::WRITE_SLICES_MAX;

/// The kernel's I/O vector; on the heap, so that its address stays valid while an entry points to it.
#[derive(Default)]
pub(super) struct Vector(Vec<libc::iovec>);

/// A message for `sendmsg`: its header points to the vector beside it.
pub(super) struct Message {
    header: libc::msghdr,
    vector: Vector,
}

impl Vector {
    /// Replace the vector. The address returned stays valid until the next call.
    pub(super) fn fill<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> (*const libc::iovec, usize) {
        self.0.clear();
        // The kernel uses one type for reading and writing; here it only reads.
        self.0
            .extend(pieces.take(WRITE_SLICES_MAX).map(|piece| libc::iovec {
                iov_base: piece.as_ptr().cast_mut().cast(),
                iov_len: piece.len(),
            }));
        (self.0.as_ptr(), self.0.len())
    }
}

impl Default for Message {
    fn default() -> Self {
        Self {
            // SAFETY: a C structure of integers and pointers, for which all zeroes is a valid value: a message
            // without address, pieces and control data. It may have private padding, hence no literal.
            header: unsafe { std::mem::zeroed() },
            vector: Vector::default(),
        }
    }
}

impl Message {
    /// Replace the pieces. The address returned stays valid until the next call, as long as the message is not moved.
    pub(super) fn fill<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> *const libc::msghdr {
        let (pieces, count) = self.vector.fill(pieces);
        self.header.msg_iov = pieces.cast_mut();
        #[allow(
            clippy::useless_conversion,
            reason = "the field's width differs between C libraries"
        )]
        {
            self.header.msg_iovlen = count.try_into().expect("at most 1024 pieces");
        }
        &raw const self.header
    }
}
