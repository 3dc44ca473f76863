//! Read-only inspection of a replica's data directory.

use std::{collections::BTreeMap, path::Path, time::Duration};

use headrace_vsr::{
    frame::{Intake, Operation, PrepareFlags, PrepareFrame, body::multi},
    superblock::{Opened, Superblock},
};
use serde::Serialize;

use crate::{
    errors::StartError,
    opening::MESSAGE_BYTES_MAX,
    storage::{Checkpoints, DataDirectory, ImageDigest, Scanned, SuperblockFile, scan},
    surroundings::OpenMode,
};

/// Maximum number of inspections, if a running replica changes its files meanwhile.
const INSPECTIONS: u32 = 5;
const SUPERBLOCK_READS: u32 = 10;
const SUPERBLOCK_READ_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Contents of a data directory.
#[derive(Debug, Clone, Serialize)]
pub struct DataDirectoryReport {
    /// Problems found; empty if everything was verified.
    pub problems: Vec<String>,
    /// Superblock in force.
    pub superblock: SuperblockReport,
    /// Images of the state, oldest first.
    pub checkpoints: Vec<CheckpointReport>,
    /// Journal files, oldest first.
    pub files: Vec<JournalFileReport>,
    /// Records that were requested, by op.
    pub records: Vec<RecordReport>,
}

/// Contents of the superblock.
#[derive(Debug, Clone, Serialize)]
pub struct SuperblockReport {
    /// Sequence number, incremented with every write.
    pub sequence: u64,
    /// Number of damaged copies, of four.
    pub damaged_copies: usize,
    /// Id of the cluster, hexadecimal.
    pub cluster_id: String,
    /// Index of the replica.
    pub replica: u8,
    /// Number of members of the group.
    pub replicas: u8,
    /// Incarnation: number of starts.
    pub incarnation: u64,
    /// View of the replica.
    pub view: u32,
    /// Last view whose log was adopted.
    pub log_view: u32,
    /// Head of the log when the view was recorded.
    pub view_head_op: u64,
    /// Lower bound of the commit point.
    pub commit: u64,
    /// Op of the checkpoint; 0: none.
    pub checkpoint_op: u64,
    /// Length of the checkpoint in bytes.
    pub checkpoint_bytes: u64,
    /// XXH3-128 of the checkpoint, hexadecimal.
    pub checkpoint_digest: String,
}

/// One image of the state.
#[derive(Debug, Clone, Serialize)]
pub struct CheckpointReport {
    /// Name of the file.
    pub file: String,
    /// Op of the state.
    pub op: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Verdict: `whole`, `damaged` or `unnamed`. The superblock does not name an `unnamed` image, so it cannot be
    /// verified.
    pub verdict: &'static str,
}

/// One file of the journal.
#[derive(Debug, Clone, Serialize)]
pub struct JournalFileReport {
    /// Name of the file.
    pub file: String,
    /// Lowest op in the file; 0 if the file is empty.
    pub first_op: u64,
    /// Highest op in the file.
    pub last_op: u64,
    /// Number of records in the file.
    pub records: usize,
    /// Length in bytes.
    pub bytes: u64,
    /// Verdict: `whole` or `damaged`.
    pub verdict: &'static str,
}

/// One record of the journal: the newest of its op.
#[derive(Debug, Clone, Serialize)]
pub struct RecordReport {
    /// Position in the log.
    pub op: u64,
    /// View in which the record was prepared.
    pub view: u32,
    /// Nanoseconds since the Unix epoch.
    pub timestamp_ns: u64,
    /// Type of the record: `commands`, or an operation of the protocol.
    pub operation: &'static str,
    /// Number of commands in the record.
    pub commands: usize,
    /// Length of the frame in bytes.
    pub bytes: u64,
    /// Checksum of the prepare, hexadecimal.
    pub checksum: String,
    /// Verdict: `whole` or `damaged`. Of a damaged record only op and length are known.
    pub verdict: &'static str,
}

/// Inspect a data directory. The replica may be running; records written concurrently may look torn.
///
/// # Errors
/// The data directory contains no replica, or cannot be read at all.
pub fn inspect(
    directory: &Path,
    first_op: u64,
    limit: usize,
) -> Result<DataDirectoryReport, StartError> {
    inspect_files(&DataDirectory::on_disk(directory), first_op, limit)
}

/// Inspect a data directory. A problem counts only if it is found twice with the same superblock: a running replica
/// removes files that a newer checkpoint replaces.
pub(crate) fn inspect_files(
    directory: &DataDirectory,
    first_op: u64,
    limit: usize,
) -> Result<DataDirectoryReport, StartError> {
    let mut opened = superblock_of(directory)?;
    let mut report = inspect_once(directory, &opened, first_op, limit);
    for _ in 1..INSPECTIONS {
        if matches!(&report, Ok(found) if found.problems.is_empty()) {
            break;
        }
        let sequence = opened.superblock.sequence;
        let Ok(now) = superblock_of(directory) else {
            break;
        };
        opened = now;
        report = inspect_once(directory, &opened, first_op, limit);
        if opened.superblock.sequence == sequence {
            break;
        }
    }
    report
}

fn superblock_of(directory: &DataDirectory) -> Result<Opened, StartError> {
    read_superblock(directory)?.ok_or_else(|| StartError::Damaged {
        path: directory.path().to_owned(),
        finding: "this directory contains no metadata replica".to_owned(),
        advice: "Give the directory that contains the file `superblock`",
    })
}

fn inspect_once(
    directory: &DataDirectory,
    opened: &Opened,
    first_op: u64,
    limit: usize,
) -> Result<DataDirectoryReport, StartError> {
    let superblock = &opened.superblock;
    let intake = Intake {
        cluster: superblock.cluster,
        message_size_max: MESSAGE_BYTES_MAX,
    };
    let scanned = scan(directory, superblock, intake, OpenMode::Read)?;
    let mut problems = Vec::new();
    if !opened.repair.is_empty() {
        problems.push(format!(
            "superblock: {} of 4 copies are damaged; the next start mends them",
            opened.repair.len()
        ));
    }
    problems.extend(scanned.torn());
    for entry in scanned.scan.entries.iter().filter(|entry| !entry.intact) {
        problems.push(format!("journal: op {} is damaged", entry.op));
    }
    let checkpoints = checkpoints(directory, superblock, &mut problems)?;
    let files = files(&scanned);
    let records = records(&scanned, intake, first_op, limit);
    Ok(DataDirectoryReport {
        problems,
        superblock: describe(superblock, opened.repair.len()),
        checkpoints,
        files,
        records,
    })
}

/// Read the superblock, again if half of the copies are outdated because a running replica is writing them.
fn read_superblock(directory: &DataDirectory) -> Result<Option<Opened>, StartError> {
    for _ in 1..SUPERBLOCK_READS {
        match SuperblockFile::read(directory) {
            Ok(Some(opened)) if opened.repair.is_empty() => return Ok(Some(opened)),
            Ok(None) => return Ok(None),
            Ok(Some(_)) | Err(_) => std::thread::sleep(SUPERBLOCK_READ_AGAIN_AFTER),
        }
    }
    SuperblockFile::read(directory)
}

fn describe(superblock: &Superblock, damaged_copies: usize) -> SuperblockReport {
    SuperblockReport {
        sequence: superblock.sequence,
        damaged_copies,
        cluster_id: format!("{:032x}", superblock.cluster),
        replica: superblock.replica,
        replicas: superblock.replica_count(),
        incarnation: superblock.incarnation,
        view: superblock.view.number,
        log_view: superblock.view.log_view,
        view_head_op: superblock.view.head_op,
        commit: superblock.commit_max,
        checkpoint_op: superblock.checkpoint.op,
        checkpoint_bytes: superblock.checkpoint.len,
        checkpoint_digest: format!("{:032x}", superblock.checkpoint.digest),
    }
}

fn checkpoints(
    directory: &DataDirectory,
    superblock: &Superblock,
    problems: &mut Vec<String>,
) -> Result<Vec<CheckpointReport>, StartError> {
    let images = Checkpoints::new(directory);
    let failed = |source| StartError::storage("list", directory.path(), source);
    let ops = images.ops().map_err(failed)?;
    let named = superblock.checkpoint.op;
    if named > 0 && !ops.contains(&named) {
        problems.push(format!("checkpoint of op {named}: the file is missing"));
    }
    let mut reports = Vec::new();
    for op in ops {
        let path = images.path(op);
        let bytes = images.length(op).map_err(failed)?;
        let verdict = if op == named {
            let name = ImageDigest {
                length: superblock.checkpoint.len,
                digest: superblock.checkpoint.digest,
            };
            match images.read(op, name) {
                Ok(Some(_)) => "whole",
                _ => "damaged",
            }
        } else {
            "unnamed"
        };
        if verdict == "damaged" {
            problems.push(format!("checkpoint of op {op}: the file is damaged"));
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        reports.push(CheckpointReport {
            file: file.into_owned(),
            op,
            bytes,
            verdict,
        });
    }
    Ok(reports)
}

fn files(scanned: &Scanned) -> Vec<JournalFileReport> {
    let damaged: Vec<u64> = scanned
        .scan
        .entries
        .iter()
        .filter(|entry| !entry.intact)
        .map(|entry| entry.op)
        .collect();
    scanned
        .files
        .iter()
        .map(|file| {
            let ops = || file.places.iter().map(|place| place.op);
            let verdict = if ops().any(|op| damaged.contains(&op)) {
                "damaged"
            } else {
                "whole"
            };
            JournalFileReport {
                file: file.name(),
                first_op: ops().min().unwrap_or(0),
                last_op: ops().max().unwrap_or(0),
                records: file.places.len(),
                bytes: file.bytes,
                verdict,
            }
        })
        .collect()
}

fn records(scanned: &Scanned, intake: Intake, first_op: u64, limit: usize) -> Vec<RecordReport> {
    let mut newest = BTreeMap::new();
    for file in &scanned.files {
        for place in file.places.iter().filter(|place| place.op >= first_op) {
            newest.insert(place.op, (file, *place));
        }
    }
    newest
        .into_values()
        .take(limit)
        .map(|(file, place)| {
            file.read(place, intake).map_or(
                RecordReport {
                    op: place.op,
                    view: 0,
                    timestamp_ns: 0,
                    operation: "",
                    commands: 0,
                    bytes: u64::from(place.frame_bytes),
                    checksum: String::new(),
                    verdict: "damaged",
                },
                |frame| record(&frame),
            )
        })
        .collect()
}

fn record(frame: &PrepareFrame) -> RecordReport {
    let header = &frame.header;
    let commands = if header.area.flags.contains(PrepareFlags::MULTI) {
        multi::decode(&frame.body).map_or(0, |table| table.len())
    } else {
        usize::from(header.area.operation.is_metadata())
    };
    RecordReport {
        op: header.op(),
        view: header.view,
        timestamp_ns: header.area.timestamp_ns,
        operation: name_of(header.area.operation),
        commands,
        bytes: u64::from(header.size),
        checksum: format!("{:032x}", header.checksum),
        verdict: "whole",
    }
}

fn name_of(operation: Operation) -> &'static str {
    match operation {
        Operation::REGISTER => "register",
        Operation::UNREGISTER => "unregister",
        Operation::NOOP => "noop",
        Operation::RELEASE => "release",
        Operation::ADVANCE_TIME => "advance_time",
        operation if operation.is_metadata() => "commands",
        _ => "other",
    }
}
