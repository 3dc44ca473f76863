//! Journal recovery after a start.

use std::{collections::BTreeMap, io};

use headrace_vsr::{
    frame::Intake,
    journal::{Place, Scan, Scanner},
    superblock::Superblock,
};

use super::{
    directory::DataDirectory,
    journal::{Journal, JournalContext, JournalFile, list, name_of, open_file},
    manifest,
};
use crate::{errors::StartError, surroundings::OpenMode};

/// Result of reading a journal; no file has been changed yet.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) scan: Scan,
    pub(crate) files: Vec<JournalFile>,
}

/// Return whether any journal files exist.
pub(crate) fn has_files(directory: &DataDirectory) -> Result<bool, StartError> {
    list(directory)
        .map(|files| !files.is_empty())
        .map_err(|source| StartError::storage("list", directory.path(), source))
}

/// Read the journal that belongs to a superblock. `opening`: mode in which its files stay open.
pub(crate) fn scan(
    directory: &DataDirectory,
    superblock: &Superblock,
    intake: Intake,
    opening: OpenMode,
) -> Result<Scanned, StartError> {
    let files = manifest::read(directory)?;
    // File names are trusted like file contents, so they must be durable too.
    directory
        .sync()
        .map_err(|source| StartError::storage("sync", directory.path(), source))?;
    let mut scanner = Scanner::new(superblock, intake);
    for &(number, _) in &files {
        // One file at a time: the bytes are only scanned here, and not kept.
        let bytes = directory
            .read_from_device(&name_of(number))
            .map_err(|source| {
                StartError::storage("read", &directory.join(&name_of(number)), source)
            })?;
        scanner.file(number, &bytes);
    }
    let scan = scanner.finish();
    let mut places: BTreeMap<u64, Vec<Place>> = BTreeMap::new();
    for &place in &scan.places {
        places.entry(place.file).or_default().push(place);
    }
    let files = files
        .into_iter()
        .map(|(number, bytes)| {
            let places = places.remove(&number).unwrap_or_default();
            open_file(directory, number, bytes, places, opening).map_err(|source| {
                StartError::storage("open", &directory.join(&name_of(number)), source)
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(Scanned { scan, files })
}

impl Scanned {
    /// Numbers and lengths of the files.
    pub(crate) fn listed(&self) -> Vec<(u64, u64)> {
        self.files
            .iter()
            .map(|file| (file.number, file.bytes))
            .collect()
    }

    /// Log line about records torn by a crash, if there are any.
    pub(crate) fn torn(&self) -> Option<String> {
        self.scan.torn.map(|op| {
            format!(
                "the last write of the metadata journal, from op {op} on, was not finished and is cut: it was never \
                 acknowledged"
            )
        })
    }

    /// Log line about records that the disk has lost, if there are any. A replica with peers starts nevertheless.
    pub(crate) fn faulty(&self) -> Option<String> {
        let first = self.scan.damaged().next()?;
        Some(format!(
            "{} op(s) of the metadata journal, from op {first} on, are damaged and are fetched from the peers; if it \
             happens again, replace the disk",
            self.scan.damaged().count()
        ))
    }

    /// Log line about operations without a record, if there are any.
    pub(crate) fn missing(&self) -> Option<String> {
        let missing = self.scan.missing();
        (missing > 0).then(|| {
            format!(
                "{missing} op(s) of the group are not in the metadata journal: they had not come when the process ended, or \
                 nothing is left of them; they are fetched from the peers"
            )
        })
    }

    /// Overwrite torn records, and continue the journal behind them.
    pub(crate) fn into_journal(self, context: JournalContext) -> io::Result<Journal> {
        let journal = Journal::new(
            context,
            self.files,
            self.scan.position,
            self.scan.synced,
            self.scan.log,
        );
        journal.erase(&self.scan.erase)?;
        Ok(journal)
    }
}
