//! Journal of one file for tests: written, damaged and scanned.
#![expect(
    clippy::cast_possible_truncation,
    reason = "operations and offsets of a test are small"
)]

mod crashes;
mod cuts;
mod findings;

use alloc::vec;
use alloc::vec::Vec;

use headrace_buffer::Slice;

use super::*;
use crate::frame::area::Prepare;
use crate::frame::{Frame, Intake, Operation, Origin, PrepareFrame, PrepareHeader};
use crate::superblock::Superblock;

const CLUSTER: u128 = 77;
const FILE: usize = 256 * 1024;
const SECTOR: usize = 512;

const INTAKE: Intake = Intake {
    cluster: CLUSTER,
    message_size_max: 1 << 20,
};

fn superblock(replicas: u64) -> Superblock {
    Superblock::new(CLUSTER, 1, 100, 0, (100..100 + replicas).collect(), 0)
}

/// Create a prepare with a body of `len` bytes. Every operation below it is committed.
fn prepare(op: u64, view: u32, parent: u128, len: usize) -> PrepareFrame {
    prepare_after(op, view, parent, len, op - 1)
}

fn prepare_after(op: u64, view: u32, parent: u128, len: usize, commit: u64) -> PrepareFrame {
    let origin = Origin {
        cluster: CLUSTER,
        group: 1,
        view,
        ..Origin::default()
    };
    let area = Prepare {
        parent,
        op,
        commit,
        operation: Operation::NOOP,
        ..Prepare::default()
    };
    // Body bytes are never zero, so that the loss of any part of the body is detectable.
    Frame::seal(origin, area, Slice::from_vec(vec![op as u8 | 1; len]))
}

fn chain(from_op: u64, count: u64, view: u32, len: usize) -> Vec<PrepareFrame> {
    let mut parent = PrepareHeader::root(CLUSTER, 1).checksum;
    let link = |op| {
        let frame = prepare(op, view, parent, len);
        parent = frame.header.checksum;
        frame
    };
    (from_op..from_op + count).map(link).collect()
}

/// Create prepares of view 0 that were made while no operation above `commit` was committed.
fn pipelined(count: u64, commit: u64, len: usize) -> Vec<PrepareFrame> {
    let mut parent = PrepareHeader::root(CLUSTER, 1).checksum;
    let link = |op: u64| {
        let frame = prepare_after(op, 0, parent, len, commit.min(op - 1));
        parent = frame.header.checksum;
        frame
    };
    (1..=count).map(link).collect()
}

/// Journal of one file.
struct Journal {
    bytes: Vec<u8>,
    position: usize,
    synced: u64,
    log_view: u32,
    places: Vec<(u64, usize, usize)>,
}

impl Journal {
    fn new() -> Self {
        Self {
            bytes: vec![0; FILE],
            position: 0,
            synced: 0,
            log_view: 0,
            places: Vec::new(),
        }
    }

    /// Write one group commit; returns the range that it covers.
    fn write(&mut self, frames: &[PrepareFrame]) -> core::ops::Range<usize> {
        let mut group = GroupCommit::new(self.synced, self.log_view);
        let from = self.position;
        for frame in frames {
            let offset = from + group.push(frame);
            self.places
                .push((frame.header.op(), offset, HEAD_BYTES + frame.size_bytes()));
        }
        let size = group.size_bytes();
        self.bytes[from..from + size].copy_from_slice(&group.finish());
        self.position += size;
        from..from + size
    }

    fn sync(&mut self, frames: &[PrepareFrame]) {
        self.write(frames);
        let highest = frames.iter().map(|frame| frame.header.op()).max();
        self.synced = self.synced.max(highest.unwrap_or(0));
    }

    fn seal(&mut self) {
        self.bytes[self.position..][..BLOCK_BYTES]
            .copy_from_slice(&encode_seal(self.synced, self.log_view));
        self.position += BLOCK_BYTES;
    }

    /// Flip a byte of the newest record of `op`, in its head or in its frame.
    fn damage(&mut self, op: u64, at: usize) {
        let (_, offset, len) = self
            .places
            .iter()
            .rev()
            .find(|place| place.0 == op)
            .expect("written");
        self.bytes[offset + at % len] ^= 0x10;
    }

    fn cut(&mut self, from_op: u64) {
        for step in self.cut_steps(from_op) {
            self.carry_out(&step);
        }
    }

    /// Forget the records that are cut. Returns the steps that erase them.
    fn cut_steps(&mut self, from_op: u64) -> Vec<EraseStep> {
        let cut = Cut::new(from_op, self.synced, self.log_view);
        let gone = self.places.extract_if(.., |place| cut.includes(place.0));
        let spans: Vec<Span> = gone
            .map(|(_, offset, len)| {
                cut.span(1, offset as u64, (len - HEAD_BYTES) as u32, FILE as u64)
            })
            .collect();
        self.synced = cut.synced();
        erase(&spans).collect()
    }

    fn carry_out(&mut self, step: &EraseStep) {
        if let EraseStep::Write { offset, bytes, .. } = step {
            self.bytes[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    fn scan(&self, superblock: &Superblock) -> Scan {
        let mut scanner = Scanner::new(superblock, INTAKE);
        scanner.file(1, &self.bytes);
        scanner.finish()
    }

    fn erase(&mut self, scan: &Scan) {
        for step in erase(&scan.erase) {
            self.carry_out(&step);
        }
    }
}

fn intact(scan: &Scan) -> Vec<u64> {
    let intact = scan.entries.iter().filter(|entry| entry.intact);
    intact.map(|entry| entry.op).collect()
}

fn faulty(scan: &Scan) -> Vec<u64> {
    let faulty = scan.entries.iter().filter(|entry| !entry.intact);
    faulty.map(|entry| entry.op).collect()
}
