//! Offline checks of the files that a partition keeps beside its log, for `headrace fsck`.

use alloc::vec::Vec;

use headrace_log::Generation;

use crate::record::{OFFSETS_SALT, RECORD_BYTES, Record};
pub use crate::stages::check::{StageVerdict, damaged_stage, is_transactions_record};

/// Positions of the damaged records of the file of stored offsets.
pub fn damaged_offsets(bytes: &[u8], generation: Generation) -> Vec<u64> {
    let tag = generation.checksum_seed(OFFSETS_SALT);
    let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
    let positions = records
        .iter()
        .zip((0..).step_by(RECORD_BYTES))
        .filter(|(record, _)| Record::decode(record, tag).is_none())
        .map(|(_, position)| position);
    let cut = (!rest.is_empty()).then_some((bytes.len() - rest.len()) as u64);
    positions.chain(cut).collect()
}
