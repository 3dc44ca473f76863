//! Looking into a replica's folder without changing it.

use std::{collections::BTreeMap, path::Path, time::Duration};

use headrace_vsr::{
    frame::{Intake, Operation, PrepareFlags, PrepareFrame, body::multi},
    superblock::{Opened, Superblock},
};
use serde::Serialize;

use crate::{
    errors::StartError,
    opening::MESSAGE_BYTES_MAX,
    storage::{Checkpoints, Folder, ImageName, Scanned, SuperblockFile, scan},
};

const SUPERBLOCK_READS: u32 = 10;
const SUPERBLOCK_READ_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What is in a folder.
#[derive(Debug, Clone, Serialize)]
pub struct FolderReport {
    /// Everything that is not as it should be; empty when all was verified.
    pub problems: Vec<String>,
    /// The superblock in force.
    pub superblock: SuperblockReport,
    /// Images of the state, oldest first.
    pub checkpoints: Vec<CheckpointReport>,
    /// Journal files, oldest first.
    pub files: Vec<JournalFileReport>,
    /// Records that were asked for, by op.
    pub records: Vec<RecordReport>,
}

/// What a replica must not forget.
#[derive(Debug, Clone, Serialize)]
pub struct SuperblockReport {
    /// Grows with every write.
    pub sequence: u64,
    /// Copies, of four, that have to be mended.
    pub damaged_copies: usize,
    /// Number of the cluster, hexadecimal.
    pub cluster_id: String,
    /// Index of the replica.
    pub replica: u8,
    /// Members of the group.
    pub replicas: u8,
    /// How often it was started.
    pub incarnation: u64,
    /// The view.
    pub view: u32,
    /// The last view whose log was adopted.
    pub log_view: u32,
    /// The head of the log when the view was recorded.
    pub view_head_op: u64,
    /// Committed for sure.
    pub commit: u64,
    /// The checkpoint; 0: none.
    pub checkpoint_op: u64,
    /// Its length in bytes.
    pub checkpoint_bytes: u64,
    /// Its XXH3-128, hexadecimal.
    pub checkpoint_digest: String,
}

/// One image of the state.
#[derive(Debug, Clone, Serialize)]
pub struct CheckpointReport {
    /// Name of the file.
    pub file: String,
    /// The op that led to it.
    pub op: u64,
    /// Its length.
    pub bytes: u64,
    /// `whole`, `damaged` or `unnamed`: the superblock does not know it, so that it cannot be verified.
    pub verdict: &'static str,
}

/// One file of the journal.
#[derive(Debug, Clone, Serialize)]
pub struct JournalFileReport {
    /// Name of the file.
    pub file: String,
    /// Lowest op in it; 0 when it is empty.
    pub first_op: u64,
    /// Highest op in it.
    pub last_op: u64,
    /// Records in it.
    pub records: usize,
    /// Its length.
    pub bytes: u64,
    /// `whole` or `damaged`.
    pub verdict: &'static str,
}

/// One record of the journal: the newest of its op.
#[derive(Debug, Clone, Serialize)]
pub struct RecordReport {
    /// Position in the log.
    pub op: u64,
    /// The view that it was prepared in.
    pub view: u32,
    /// Nanoseconds since the Unix epoch.
    pub timestamp_ns: u64,
    /// What it is: `commands`, or an operation of the protocol.
    pub operation: &'static str,
    /// Commands in it.
    pub commands: usize,
    /// Bytes of its frame.
    pub bytes: u64,
    /// Identity, hexadecimal.
    pub checksum: String,
    /// `whole`, or `damaged`: then only op and bytes are known.
    pub verdict: &'static str,
}

/// Read a folder, also of a replica that runs: what is written meanwhile may look torn then.
///
/// # Errors
///
/// There is no replica in the folder, or it cannot be read at all.
pub fn inspect(folder: &Path, first_op: u64, limit: usize) -> Result<FolderReport, StartError> {
    let folder = &Folder::real(folder);
    let Some(opened) = read_superblock(folder)? else {
        return Err(StartError::Damaged {
            path: folder.path().to_owned(),
            why: "there is no metadata replica in this folder".to_owned(),
            advice: "Name the folder that holds the file `superblock`",
        });
    };
    let superblock = opened.superblock;
    let intake = Intake {
        cluster: superblock.cluster,
        message_size_max: MESSAGE_BYTES_MAX,
    };
    let scanned = scan(folder, &superblock, intake)?;
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
    let checkpoints = checkpoints(folder, &superblock, &mut problems)?;
    let files = files(&scanned);
    let records = records(&scanned, intake, first_op, limit);
    Ok(FolderReport {
        problems,
        superblock: describe(&superblock, opened.repair.len()),
        checkpoints,
        files,
        records,
    })
}

/// Half of the copies are behind while a replica writes them: then they are looked at again.
fn read_superblock(folder: &Folder) -> Result<Option<Opened>, StartError> {
    for _ in 1..SUPERBLOCK_READS {
        match SuperblockFile::read(folder) {
            Ok(Some(opened)) if opened.repair.is_empty() => return Ok(Some(opened)),
            Ok(None) => return Ok(None),
            Ok(Some(_)) | Err(_) => std::thread::sleep(SUPERBLOCK_READ_AGAIN_AFTER),
        }
    }
    SuperblockFile::read(folder)
}

fn describe(superblock: &Superblock, damaged_copies: usize) -> SuperblockReport {
    SuperblockReport {
        sequence: superblock.sequence,
        damaged_copies,
        cluster_id: format!("{:032x}", superblock.cluster),
        replica: superblock.replica,
        replicas: superblock.replica_count(),
        incarnation: superblock.incarnation,
        view: superblock.view,
        log_view: superblock.log_view,
        view_head_op: superblock.view_head_op,
        commit: superblock.commit_max,
        checkpoint_op: superblock.checkpoint.op,
        checkpoint_bytes: superblock.checkpoint.len,
        checkpoint_digest: format!("{:032x}", superblock.checkpoint.digest),
    }
}

fn checkpoints(
    folder: &Folder,
    superblock: &Superblock,
    problems: &mut Vec<String>,
) -> Result<Vec<CheckpointReport>, StartError> {
    let images = Checkpoints::new(folder);
    let failed = |source| StartError::storage("list", folder.path(), source);
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
            let name = ImageName {
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
        Operation::RECONFIGURE => "reconfigure",
        Operation::RELEASE => "release",
        Operation::PULSE => "pulse",
        operation if operation.is_metadata() => "commands",
        _ => "other",
    }
}
