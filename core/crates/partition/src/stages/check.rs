//! Offline checks of stages and of the record of publications.

use alloc::vec::Vec;

use headrace_model::StageId;

use super::file::{
    BLOCK_HEADER_BYTES, BlockHeader, FOOTER_BYTES, Footer, HEADER_BYTES, header, resembles_footer,
};
use super::record::{NoRecord, Record};

/// Verdict on the file of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageVerdict {
    /// The stage is complete and intact.
    Whole,
    /// The stage was not completed.
    Incomplete,
    /// The bytes at this position are damaged.
    Damaged(u64),
}

/// Check the file of a stage of this partition, which has `length` bytes. `read` returns the bytes from a position on,
/// fewer than asked for at the end of the file.
///
/// # Errors
/// Errors of `read`.
pub fn damaged_stage<E>(
    id: StageId,
    incarnation: u64,
    length: u64,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<StageVerdict, E> {
    let Some(footer_start) = length.checked_sub(FOOTER_BYTES as u64) else {
        return Ok(StageVerdict::Incomplete);
    };
    let end = read(footer_start, FOOTER_BYTES)?;
    let Some(footer) = Footer::decode(&end, incarnation, id, length) else {
        return Ok(if resembles_footer(&end, incarnation, id, length) {
            StageVerdict::Damaged(footer_start)
        } else {
            StageVerdict::Incomplete
        });
    };
    if read(0, HEADER_BYTES)? != header(incarnation, id) {
        return Ok(StageVerdict::Damaged(0));
    }
    let (mut position, mut messages) = (HEADER_BYTES as u64, 0);
    while position < footer_start {
        let start = read(position, BLOCK_HEADER_BYTES)?;
        let Some(block) = BlockHeader::decode(&start) else {
            return Ok(StageVerdict::Damaged(position));
        };
        let contents = read(
            position + BLOCK_HEADER_BYTES as u64,
            block.length() - BLOCK_HEADER_BYTES,
        )?;
        if position + block.length() as u64 > footer_start || !block.is_of(&contents) {
            return Ok(StageVerdict::Damaged(position));
        }
        messages += u64::from(block.messages);
        position += block.length() as u64;
    }
    Ok(if messages == footer.messages {
        StageVerdict::Whole
    } else {
        StageVerdict::Damaged(HEADER_BYTES as u64)
    })
}

/// Return whether these bytes are an intact record of publications, of any incarnation.
pub fn is_transactions_record(bytes: &[u8], incarnation: u64) -> bool {
    !matches!(Record::decode(bytes, incarnation), Err(NoRecord::Damaged))
}
