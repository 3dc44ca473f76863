//! Superblock and checkpoints as files, written in a crash-safe order.

use std::ops::Range;

use headrace_buffer::Slice;
use headrace_vsr::superblock::{COPIES, COPY_BYTES, SUPERBLOCK_BYTES, Superblock};

use crate::cluster::SUPERBLOCK;
use crate::disk::Disk;
use crate::jobs::Step;

/// Suffix of the name of an incomplete checkpoint.
const TEMPORARY: &str = "-unfinished";

/// Write copies 0 and 1, sync, write copies 2 and 3, sync: at any moment one pair is intact.
pub(super) fn superblock_steps(superblock: &Superblock) -> Vec<Step> {
    let mut steps = Vec::new();
    for copy in 0..COPIES {
        steps.push(copy_step(superblock, copy));
        if copy % 2 == 1 {
            steps.push(Step::Sync(SUPERBLOCK.to_owned()));
        }
    }
    steps
}

/// Write the first superblock of a replica over a zeroed file.
pub(super) fn first_superblock_steps(superblock: &Superblock) -> Vec<Step> {
    let mut steps = vec![
        Step::Create(SUPERBLOCK.to_owned()),
        Step::Resize(SUPERBLOCK.to_owned(), SUPERBLOCK_BYTES),
    ];
    steps.extend(superblock_steps(superblock));
    steps.push(Step::SyncNames);
    steps
}

/// Rewrite the copies that do not hold the superblock in force.
pub(super) fn repair_steps(superblock: &Superblock, copies: &[usize]) -> Vec<Step> {
    let mut steps: Vec<Step> = copies
        .iter()
        .map(|copy| copy_step(superblock, *copy))
        .collect();
    if !steps.is_empty() {
        steps.push(Step::Sync(SUPERBLOCK.to_owned()));
    }
    steps
}

fn copy_step(superblock: &Superblock, copy: usize) -> Step {
    let bytes = superblock.encode(copy).to_vec();
    Step::Write {
        file: SUPERBLOCK.to_owned(),
        offset: copy * COPY_BYTES,
        bytes,
    }
}

/// Byte ranges of the two copies of a pair.
pub(super) fn superblock_pair(pair: u8) -> [Range<usize>; 2] {
    let first = usize::from(pair) * 2;
    [first, first + 1].map(|copy| copy * COPY_BYTES..(copy + 1) * COPY_BYTES)
}

fn checkpoint_name(op: u64) -> String {
    format!("checkpoint-{op:020}")
}

fn incoming_name(op: u64) -> String {
    format!("incoming-{op:020}")
}

/// Encode state machine and client table into one image.
pub(super) fn encode_image(machine: &[u8], clients: &[u8]) -> Vec<u8> {
    let mut bytes = (machine.len() as u64).to_le_bytes().to_vec();
    bytes.extend(machine);
    bytes.extend(clients);
    bytes
}

/// State machine and client table of an image; `None` if the bytes are invalid.
pub(super) fn decode_image(bytes: &[u8]) -> Option<(&[u8], Slice)> {
    let len = usize::try_from(u64::from_le_bytes(*bytes.first_chunk()?)).ok()?;
    let end = len.checked_add(8)?;
    Some((bytes.get(8..end)?, Slice::from_vec(bytes[end..].to_vec())))
}

/// Write a checkpoint to a temporary file and rename it when it is complete.
pub(super) fn checkpoint_steps(op: u64, bytes: &[u8]) -> Vec<Step> {
    let (temporary, name) = (
        format!("checkpoint-{op:020}{TEMPORARY}"),
        checkpoint_name(op),
    );
    vec![
        Step::Create(temporary.clone()),
        Step::Write {
            file: temporary.clone(),
            offset: 0,
            bytes: bytes.to_vec(),
        },
        Step::Sync(temporary.clone()),
        Step::Rename(temporary, name),
        Step::SyncNames,
    ]
}

/// Write a chunk of an incoming checkpoint; offset 0 starts over.
pub(super) fn chunk_steps(op: u64, offset: u64, bytes: &[u8]) -> Vec<Step> {
    let name = incoming_name(op);
    let create = (offset == 0).then(|| Step::Create(name.clone()));
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    create
        .into_iter()
        .chain([Step::Write {
            file: name,
            offset,
            bytes: bytes.to_vec(),
        }])
        .collect()
}

/// Bytes of the incoming checkpoint so far.
pub(super) fn incoming(disk: &Disk, op: u64) -> Option<&[u8]> {
    disk.read(&incoming_name(op))
}

/// Make the incoming checkpoint durable under its final name.
pub(super) fn install(disk: &mut Disk, op: u64, forget_directory: bool) {
    let (from, to) = (incoming_name(op), checkpoint_name(op));
    disk.sync(&from);
    disk.rename(&from, &to);
    if !forget_directory {
        disk.sync_names();
    }
}

/// Bytes of a checkpoint.
pub(super) fn checkpoint(disk: &Disk, op: u64) -> Option<&[u8]> {
    disk.read(&checkpoint_name(op))
}

/// Bytes of a checkpoint for another replica; `None` if it no longer exists.
pub(super) fn read_chunk(disk: &Disk, op: u64, offset: u64, length: u32) -> Option<Slice> {
    let bytes = checkpoint(disk, op)?;
    let start = usize::try_from(offset).ok()?;
    let end = start
        .checked_add(usize::try_from(length).ok()?)?
        .min(bytes.len());
    bytes
        .get(start..end)
        .map(|chunk| Slice::from_vec(chunk.to_vec()))
}

/// Name of the newest checkpoint.
pub(super) fn newest_checkpoint(disk: &Disk) -> Option<String> {
    disk.names()
        .filter(|name| name.starts_with("checkpoint-") && !name.ends_with(TEMPORARY))
        .last()
        .map(str::to_owned)
}

/// Remove what a superblock with the checkpoint `op` makes obsolete.
pub(super) fn old_checkpoints(disk: &Disk, op: u64) -> Vec<Step> {
    let keep = checkpoint_name(op);
    disk.names()
        .filter(|name| name.starts_with("checkpoint-") && **name < *keep)
        .map(|name| Step::Remove(name.to_owned()))
        .collect()
}
