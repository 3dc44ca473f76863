//! Writing many slices with few system calls.

use std::{
    io::{self, IoSlice},
    os::fd::OwnedFd,
};

use headrace_buffer::Slice;
use headrace_model::limits::WRITE_SLICES_MAX;
use rustix::io::Errno;

/// Maximum number of slices that are gathered on the stack; more cost an allocation.
const ON_STACK: usize = 16;

/// Progress of writing a list of slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    index: usize,
    offset: usize,
}

impl Progress {
    /// Note that `count` more bytes are written.
    pub(crate) fn advance(&mut self, slices: &[Slice], mut count: usize) {
        while let Some(slice) = slices.get(self.index) {
            let left = slice.len() - self.offset;
            if count < left {
                self.offset += count;
                return;
            }
            count -= left;
            self.index += 1;
            self.offset = 0;
        }
        debug_assert_eq!(count, 0, "more was written than there was");
    }

    /// Next pieces that are not written yet, none of them empty, as many as one system call takes.
    pub(crate) fn remaining<'a>(self, slices: &'a [Slice]) -> impl Iterator<Item = &'a [u8]> {
        let mut offset = self.offset;
        slices[self.index..]
            .iter()
            .map(move |slice| &slice[core::mem::take(&mut offset)..])
            .filter(|piece: &&'a [u8]| !piece.is_empty())
            .take(WRITE_SLICES_MAX)
    }

    /// Return whether all slices are written.
    pub(crate) fn is_finished(self, slices: &[Slice]) -> bool {
        self.remaining(slices).next().is_none()
    }

    /// Pass the next pieces to `write`; returns their total size and its result.
    pub(crate) fn gather<R>(
        self,
        slices: &[Slice],
        write: impl FnOnce(&[IoSlice<'_>]) -> R,
    ) -> (usize, R) {
        let mut bytes = 0;
        let mut pieces = self.remaining(slices).map(|piece| {
            bytes += piece.len();
            IoSlice::new(piece)
        });
        let result = if slices.len() - self.index <= ON_STACK {
            let mut gathered = [IoSlice::new(&[]); ON_STACK];
            let mut count = 0;
            for (place, piece) in gathered.iter_mut().zip(pieces) {
                *place = piece;
                count += 1;
            }
            write(&gathered[..count])
        } else {
            let gathered: Vec<IoSlice<'_>> = pieces.by_ref().collect();
            write(&gathered)
        };
        (bytes, result)
    }
}

/// Write all slices at `position`, blocking until done.
pub(crate) fn write_all(file: &OwnedFd, position: u64, slices: &[Slice]) -> io::Result<()> {
    let mut position = position;
    let mut progress = Progress::default();
    while !progress.is_finished(slices) {
        match progress
            .gather(slices, |pieces| rustix::io::pwritev(file, pieces, position))
            .1
        {
            // A file that takes no bytes and reports no error: treated as full.
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                progress.advance(slices, count);
                position += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Short writes of any size still write every byte once and in order.
        #[test]
        fn short_writes_lose_and_repeat_nothing(
            lengths in prop::collection::vec(0_usize..9, 0..40),
            steps in prop::collection::vec(1_usize..20, 1..10),
        ) {
            let mut next = 0_u8;
            let slices: Vec<Slice> = lengths
                .iter()
                .map(|length| {
                    Slice::from_vec((0..*length).map(|_| { next = next.wrapping_add(1); next }).collect())
                })
                .collect();
            let expected: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            let mut written = Vec::new();
            let mut progress = Progress::default();
            let mut steps = steps.into_iter().cycle();
            while !progress.is_finished(&slices) {
                let step = steps.next().unwrap();
                let (bytes, taken) = progress.gather(&slices, |pieces| {
                    let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
                    all[..step.min(all.len())].to_vec()
                });
                prop_assert!(taken.len() <= bytes);
                progress.advance(&slices, taken.len());
                written.extend(taken);
            }
            prop_assert_eq!(written, expected);
        }
    }

    #[test]
    fn one_call_takes_no_more_than_the_kernel_does() {
        let slices = vec![Slice::from_vec(vec![1]); WRITE_SLICES_MAX + 5];
        assert_eq!(
            Progress::default().remaining(&slices).count(),
            WRITE_SLICES_MAX
        );
    }
}
