//! Selection of the superblock among its copies.

use alloc::vec::Vec;

use thiserror::Error;

use super::{COPIES, COPY_BYTES, CopyError, SUPERBLOCK_BYTES, Superblock};

/// Superblock in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Content of the superblock.
    pub superblock: Superblock,
    /// Numbers of the copies with other content. The host must rewrite and sync them before any other write.
    pub repair: Vec<usize>,
}

/// Reason why no superblock is in force.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The length of the file is not that of four copies.
    #[error("the superblock has {0} bytes instead of {SUPERBLOCK_BYTES}")]
    Length(usize),
    /// No superblock was ever written.
    #[error("there is no superblock")]
    Empty,
    /// The superblock was written by another release.
    #[error("the superblock has version {0}, which this release does not know")]
    Version(u32),
    /// No two copies agree; the newest one may hide a newer view.
    #[error("no two copies of the superblock agree (first: {0})")]
    Damaged(CopyError),
    /// Two pairs of copies hold different contents with the same sequence number.
    #[error("the copies of the superblock hold two contents of sequence {0}")]
    Fork(u64),
}

/// Find the superblock in force: the one with the highest sequence number that two copies hold.
///
/// A single copy with a higher sequence number belongs to a write that never reached its first sync; no action depended
/// on it.
///
/// # Errors
/// The reason why there is none. The file must then not be written: the replica needs an operator, or a new identity.
pub fn open(bytes: &[u8]) -> Result<Opened, OpenError> {
    let (copies, rest) = bytes.as_chunks::<COPY_BYTES>();
    if copies.len() != COPIES || !rest.is_empty() {
        return Err(OpenError::Length(bytes.len()));
    }
    let read: Vec<_> = copies
        .iter()
        .enumerate()
        .map(|(copy, bytes)| Superblock::decode(bytes, copy))
        .collect();
    let mut best: Option<&Superblock> = None;
    for superblock in read.iter().flatten() {
        if read
            .iter()
            .flatten()
            .filter(|&other| other == superblock)
            .count()
            < 2
        {
            continue;
        }
        match best {
            Some(best) if best.sequence == superblock.sequence && best != superblock => {
                return Err(OpenError::Fork(best.sequence));
            }
            Some(best) if best.sequence >= superblock.sequence => {}
            _ => best = Some(superblock),
        }
    }
    let Some(superblock) = best else {
        return Err(refusal(&read));
    };
    let repair = (0..COPIES).filter(|&copy| read[copy].as_ref() != Ok(superblock));
    Ok(Opened {
        superblock: superblock.clone(),
        repair: repair.collect(),
    })
}

fn refusal(read: &[Result<Superblock, CopyError>]) -> OpenError {
    let errors = || read.iter().filter_map(|copy| copy.as_ref().err().copied());
    if let Some(version) = errors().find_map(|error| match error {
        CopyError::Version(version) => Some(version),
        _ => None,
    }) {
        return OpenError::Version(version);
    }
    if read.iter().all(|copy| *copy == Err(CopyError::Empty)) {
        return OpenError::Empty;
    }
    let first = errors().find(|&error| error != CopyError::Empty);
    OpenError::Damaged(first.unwrap_or(CopyError::Empty))
}
