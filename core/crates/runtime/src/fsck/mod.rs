//! Offline check of a partition's directory, for `headrace fsck`.
//!
//! Every byte that has a checksum is compared with it, and the parts of the directory with one another. Nothing is
//! changed without `repair`, which writes only what can be derived: the manifest, its copy and indexes.

mod logs;
pub(crate) mod units;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use headrace_log::{
    Generation,
    check::{ManifestReport, read_manifest, rebuilt_manifest},
    storage::FileName,
};
use headrace_model::{Namespace, Offset};
use headrace_partition::check::{
    StageVerdict, damaged_offsets, damaged_stage, is_transactions_record,
};
use serde::{Deserialize, Serialize};

use crate::storage::replace_file;

/// Number of bytes that are read at once: a multiple of the sizes of records and index entries.
const PIECE_BYTES: usize = 96 * 10_240;

/// Finding about one place of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the file in the partition's directory.
    pub file: String,
    /// Kind of the finding.
    pub kind: FindingKind,
    /// Position of the first byte, if the place is known.
    pub position: Option<u64>,
    /// Number of bytes, if known.
    pub bytes: Option<u64>,
    /// Offset of the first message affected, if messages are.
    pub offset: Option<u64>,
    /// Number of messages affected, if known.
    pub messages_count: Option<u64>,
    /// True if it was repaired.
    pub repaired: bool,
    /// Explanation for operators.
    pub explanation: String,
}

/// Kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Bytes differ from their checksum.
    Damaged,
    /// A file, or the end of one, is missing.
    Missing,
    /// A file belongs to another partition.
    Foreign,
    /// The end of a write that a crash interrupted, which the next start cuts off. No problem.
    Torn,
    /// Files that were set aside earlier, and are never read. No problem.
    SetAside,
}

/// Result of a check.
#[derive(Debug, Default, Serialize)]
pub struct PartitionCheck {
    /// Number of bytes compared with their checksums.
    pub bytes: u64,
    /// Number of intact messages.
    pub messages_count: u64,
    /// Findings, by file.
    pub findings: Vec<Finding>,
}

/// Check the directory of a partition while no server uses it.
///
/// # Errors
/// The directory, or a file of it, cannot be read, or a repair cannot be written.
pub fn check_partition(
    directory: &Path,
    namespace: Namespace,
    catalog: u128,
    repair: bool,
) -> io::Result<PartitionCheck> {
    let mut check = Check::of(directory.to_owned(), namespace, catalog, &AtOnce)?;
    check.repair = repair;
    let manifest = check.manifests()?;
    for log in check.expected_logs(manifest.as_ref()) {
        check.check_log(log, manifest.as_ref())?;
    }
    if let Some(manifest) = &manifest {
        check.companions(manifest.generation)?;
    }
    check.set_aside();
    check
        .result
        .findings
        .sort_by(|left, right| (&left.file, left.position).cmp(&(&right.file, right.position)));
    Ok(check.result)
}

/// Way in which files are read.
pub(crate) trait Reading {
    /// Open a file.
    fn open(&self, path: &Path) -> io::Result<File>;

    /// Read up to this number of bytes, fewer at the end of the file.
    fn read_at(&self, file: &File, position: u64, wanted: usize) -> io::Result<Vec<u8>>;
}

/// Reading as fast as possible.
struct AtOnce;

impl Reading for AtOnce {
    fn open(&self, path: &Path) -> io::Result<File> {
        File::open(path)
    }

    fn read_at(&self, file: &File, position: u64, wanted: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; wanted];
        let mut length = 0;
        while length < wanted {
            match file.read_at(&mut buffer[length..], position + length as u64)? {
                0 => break,
                count => length += count,
            }
        }
        buffer.truncate(length);
        Ok(buffer)
    }
}

struct Check<'a> {
    directory: PathBuf,
    namespace: Namespace,
    catalog: u128,
    repair: bool,
    reading: &'a dyn Reading,
    files: BTreeMap<FileName, u64>,
    result: PartitionCheck,
}

impl<'a> Check<'a> {
    fn of(
        directory: PathBuf,
        namespace: Namespace,
        catalog: u128,
        reading: &'a dyn Reading,
    ) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if let Some(file) = name.to_str().and_then(FileName::parse) {
                files.insert(file, entry.metadata()?.len());
            }
        }
        Ok(Self {
            directory,
            namespace,
            catalog,
            repair: false,
            reading,
            files,
            result: PartitionCheck::default(),
        })
    }

    fn path(&self, file: FileName) -> PathBuf {
        self.directory.join(file.to_string())
    }

    fn read(&mut self, file: FileName) -> io::Result<Vec<u8>> {
        let mut contents = Vec::new();
        self.read_pieces(file, |_, piece| contents.extend_from_slice(piece))?;
        Ok(contents)
    }

    /// Read a file in pieces of [`PIECE_BYTES`], each with its position.
    fn read_pieces(&mut self, file: FileName, mut take: impl FnMut(u64, &[u8])) -> io::Result<()> {
        let handle = self.reading.open(&self.path(file))?;
        let mut position = 0;
        loop {
            let piece = self.reading.read_at(&handle, position, PIECE_BYTES)?;
            take(position, &piece);
            position += piece.len() as u64;
            if piece.len() < PIECE_BYTES {
                self.result.bytes += position;
                return Ok(());
            }
        }
    }

    fn find(&mut self, file: FileName, kind: FindingKind, explanation: String) -> &mut Finding {
        self.result.findings.push(Finding {
            file: file.to_string(),
            kind,
            position: None,
            bytes: None,
            offset: None,
            messages_count: None,
            repaired: false,
            explanation,
        });
        self.result.findings.last_mut().expect("pushed")
    }

    fn bases(&self) -> Vec<Offset> {
        let base = |file: &FileName| match file {
            FileName::Log(base) => Some(*base),
            _ => None,
        };
        self.files.keys().filter_map(base).collect()
    }

    /// Check the manifest and its copy. Returns the one that is this partition's.
    fn manifests(&mut self) -> io::Result<Option<ManifestReport>> {
        let names = [FileName::Manifest, FileName::ManifestCopy];
        let mut good: Option<(ManifestReport, Vec<u8>)> = None;
        let mut wrong = Vec::new();
        let is_used = !self.files.is_empty();
        for file in names {
            if !self.files.contains_key(&file) {
                // Earlier servers made no copy, and a purge leaves none until there are messages again.
                let has_none = good
                    .as_ref()
                    .is_some_and(|(found, _)| found.owner.is_none() || found.dropping);
                if is_used && !has_none {
                    wrong.push((file, FindingKind::Missing, "it is missing".to_owned()));
                }
                continue;
            }
            let contents = self.read(file)?;
            match read_manifest(&contents) {
                None => wrong.push((file, FindingKind::Damaged, "it is damaged".to_owned())),
                Some(report) => match self.owner_of(&report) {
                    Some(owner) => wrong.push((file, FindingKind::Foreign, owner)),
                    None => {
                        good.get_or_insert((report, contents));
                    }
                },
            }
        }
        let bases = self.bases();
        for (file, kind, what) in wrong {
            let contents = match &good {
                Some((_, contents)) => Some(contents.clone()),
                None if file == FileName::Manifest && kind != FindingKind::Foreign => {
                    Some(rebuilt_manifest(self.namespace, self.catalog, &bases))
                }
                None => None,
            };
            let repaired = self.repair && contents.is_some();
            if let Some(contents) = contents.filter(|_| self.repair) {
                replace_file(&self.path(file), &contents)?;
            }
            self.find(file, kind, what).repaired = repaired;
        }
        Ok(good.map(|(report, _)| report))
    }

    /// Explain whose the manifest is, if it is not this partition's.
    fn owner_of(&self, report: &ManifestReport) -> Option<String> {
        let (namespace, catalog) = report.owner?;
        if namespace != self.namespace {
            return Some(format!("it belongs to partition {namespace}"));
        }
        let is_other = catalog != self.catalog && catalog != 0 && self.catalog != 0;
        is_other.then(|| format!("it belongs to another catalog, {catalog:032x}"))
    }

    /// Check stored offsets, stages and the record of publications.
    fn companions(&mut self, generation: Generation) -> io::Result<()> {
        for (file, length) in self.files.clone() {
            match file {
                FileName::Offsets => {
                    let mut damaged = Vec::new();
                    self.read_pieces(file, |start, piece| {
                        let positions = damaged_offsets(piece, generation);
                        damaged.extend(positions.into_iter().map(|position| start + position));
                    })?;
                    for position in damaged {
                        let what = "a stored offset is damaged, or another partition's";
                        let finding = self.find(file, FindingKind::Damaged, what.to_owned());
                        finding.position = Some(position);
                    }
                }
                FileName::Transactions => {
                    let contents = self.read(file)?;
                    if !is_transactions_record(&contents, generation.incarnation) {
                        let what = "the record of publications is damaged";
                        self.find(file, FindingKind::Damaged, what.to_owned());
                    }
                }
                FileName::Stage(stage) => {
                    let handle = self.reading.open(&self.path(file))?;
                    self.result.bytes += length;
                    let read = |position, wanted| self.reading.read_at(&handle, position, wanted);
                    let verdict = damaged_stage(stage, generation.incarnation, length, read)?;
                    if let StageVerdict::Damaged(position) = verdict {
                        let what = "the stage of a transaction is damaged";
                        let finding = self.find(file, FindingKind::Damaged, what.to_owned());
                        finding.position = Some(position);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn set_aside(&mut self) {
        for (file, length) in self.files.clone() {
            if let FileName::Cut(..) | FileName::Foreign(..) | FileName::DamagedStage(_) = file {
                let what = "it was set aside, and is never read: remove it when it is not needed";
                let finding = self.find(file, FindingKind::SetAside, what.to_owned());
                finding.bytes = Some(length);
            }
        }
    }
}
