//! Files `wal-<number>.log`: records of prepares, in the format of [`headrace_vsr::journal`].
//!
//! Files are filled with zeros before use, so that a sync writes nothing but the records, and a full disk is detected
//! before a command is accepted. The first file is small; each is four times as large as its predecessor, up to the
//! configured size. Records are appended to the last file. A file is removed when none of its ops is needed any more.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, mpsc},
};

use headrace_buffer::Slice;
use headrace_vsr::{
    frame::{Frame, Intake, PrepareFrame},
    journal::{
        BLOCK_BYTES, Cut, EraseStep, GroupCommit, HEAD_BYTES, Place, RecordedLog, Span,
        encode_seal, erase,
    },
};

use super::{
    background::{Disk, FileJob, PreallocatedFile, is_full, make_journal_file},
    directory::DataDirectory,
    manifest,
};
use crate::surroundings::{OpenFile, OpenMode};

const FIRST_FILE_BYTES: u64 = 4 * 1024 * 1024;
const GROWTH: u64 = 4;

/// One file of the journal.
#[derive(Debug)]
pub(crate) struct JournalFile {
    pub(crate) number: u64,
    pub(crate) file: Box<dyn OpenFile>,
    pub(crate) bytes: u64,
    /// All records ever written to the file and not cut, in order.
    pub(crate) places: Vec<Place>,
}

impl JournalFile {
    pub(crate) fn name(&self) -> String {
        name_of(self.number)
    }

    /// Read a record; `None` if it is damaged even after another read from the device. Reporting an intact copy as
    /// damaged could keep an operation undecided.
    pub(crate) fn read(&self, place: Place, intake: Intake) -> Option<PrepareFrame> {
        self.read_once(place, intake).or_else(|| {
            self.file.drop_cached_pages().ok()?;
            self.read_once(place, intake)
        })
    }

    fn read_once(&self, place: Place, intake: Intake) -> Option<PrepareFrame> {
        let mut bytes = vec![0; place.frame_bytes as usize];
        let offset = place.offset + HEAD_BYTES as u64;
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        let frame: Frame = intake.decode(&Slice::from_vec(bytes)).ok()?;
        frame
            .into_prepare()
            .filter(|frame| frame.header.op() == place.op)
    }

    fn highest_op(&self) -> u64 {
        self.places.iter().map(|place| place.op).max().unwrap_or(0)
    }
}

/// Environment of the journal.
#[derive(Debug)]
pub(crate) struct JournalContext {
    pub(crate) directory: DataDirectory,
    pub(crate) file_bytes: u64,
    /// True if each append is synced. Otherwise the last file has unsynced records until the next seal or superblock;
    /// everything else is durable when it is written.
    pub(crate) syncs_appends: bool,
    pub(crate) intake: Intake,
    pub(crate) disk: Arc<Disk>,
    pub(crate) jobs: mpsc::Sender<FileJob>,
}

/// Journal: its files, and the location of each op in them.
#[derive(Debug)]
pub(crate) struct Journal {
    context: JournalContext,
    /// Files ordered by number; records are appended to the last one.
    files: Vec<JournalFile>,
    /// Offset of the next group commit in the last file.
    position: u64,
    /// Newest record of each op.
    index: BTreeMap<u64, Place>,
    /// Highest op up to which all records are written.
    written_through: u64,
    /// Highest op up to which all records are durable, for heads and seals. A start takes their word for it that a
    /// missing record is damage.
    synced_through: u64,
    /// True if the last file has records that are not synced yet.
    unsynced: bool,
    /// Failed sync of such records, which shows at the next append or superblock.
    sync_failure: Option<io::Error>,
    /// Log of the newest durable superblock, to which the heads of new records refer.
    log: RecordedLog,
    /// True if the newest head states less than what is durable.
    unsealed: bool,
    /// True if the last file is not listed yet, because the disk was full.
    unlisted: bool,
}

impl Journal {
    /// Continue after a scan. `position`: offset in the last file, a multiple of the block size.
    pub(crate) fn new(
        context: JournalContext,
        files: Vec<JournalFile>,
        position: u64,
        synced_through: u64,
        log: RecordedLog,
    ) -> Self {
        let mut index = BTreeMap::new();
        for file in &files {
            for &place in &file.places {
                index.insert(place.op, place);
            }
        }
        Self {
            context,
            files,
            position,
            index,
            written_through: synced_through,
            synced_through,
            unsynced: false,
            sync_failure: None,
            log,
            // The operations recovered by the start are durable now, and no head may record that yet.
            unsealed: synced_through > 0,
            unlisted: false,
        }
    }

    /// Record the log of a newly durable superblock. Seals may be written before the journal is cut accordingly: from
    /// now on they do not state that the records to cut are durable.
    pub(crate) fn record_log(&mut self, log: RecordedLog) {
        self.written_through = self.log.succeed(log, self.written_through);
        self.synced_through = self.synced_through.min(self.written_through);
    }

    pub(crate) fn directory(&self) -> &DataDirectory {
        &self.context.directory
    }

    pub(crate) fn file_count(&self) -> u64 {
        self.files.len() as u64
    }

    /// Write records with one sync, or without any. Returns the number of bytes written; `None` if the disk is full and
    /// nothing was written.
    pub(crate) fn append(&mut self, frames: &[&PrepareFrame]) -> io::Result<Option<u64>> {
        if let Some(error) = self.sync_failure.take() {
            return Err(error);
        }
        let mut group = GroupCommit::new(self.synced_through, self.log.view);
        let mut places = Vec::with_capacity(frames.len());
        for frame in frames {
            let offset = group.push(frame) as u64;
            places.push(Place {
                op: frame.header.op(),
                checksum: frame.header.checksum,
                view: frame.header.view,
                file: 0,
                offset,
                frame_bytes: frame.header.size,
            });
        }
        let bytes = group.finish();
        let length = bytes.len() as u64;
        if !self.make_room(length, frames[0].header.op())? {
            return Ok(None);
        }
        let file = self.files.last_mut().expect("there is room in it");
        file.file.write_all_at(&bytes, self.position)?;
        if self.context.syncs_appends {
            file.file.sync_data()?;
        }
        for mut place in places {
            place.file = file.number;
            place.offset += self.position;
            file.places.push(place);
            self.index.insert(place.op, place);
            self.written_through =
                (self.log).durable_through(self.written_through, place.op, |op| {
                    self.index.get(&op).map(|record| record.view)
                });
        }
        if self.context.syncs_appends {
            self.synced_through = self.written_through;
        } else {
            self.unsynced = true;
        }
        self.position += length;
        self.unsealed = true;
        self.request_spare_file();
        Ok(Some(length))
    }

    /// Make all records durable.
    pub(crate) fn sync_written(&mut self) -> io::Result<()> {
        // A second sync would succeed without having stored them.
        if let Some(error) = self.sync_failure.take() {
            return Err(error);
        }
        if self.unsynced {
            if let Some(last) = self.files.last() {
                last.file.sync_data()?;
            }
            self.unsynced = false;
            self.synced_through = self.written_through;
        }
        Ok(())
    }

    /// Return whether a seal is needed, because no head states yet that the entire journal is durable.
    pub(crate) fn wants_seal(&self) -> bool {
        self.unsealed
    }

    /// Write a seal without a sync of its own, in a new file if the last one is full. Without space for that file a
    /// seal is needed still. Any other failure shows at the next append.
    pub(crate) fn seal(&mut self) {
        if let Err(error) = self.sync_written() {
            self.sync_failure = Some(error);
            self.unsealed = false;
            return;
        }
        let needed = BLOCK_BYTES as u64;
        if !self.files.is_empty() {
            if !self.fits(needed) && self.context.disk.is_full() {
                // The file worker looks for space; another attempt would fill what is left of the disk with zeros.
                return;
            }
            if matches!(self.make_room(needed, self.synced_through + 1), Ok(false)) {
                return;
            }
        }
        self.unsealed = false;
        let Some(file) = self.files.last().filter(|_| self.fits(needed)) else {
            return;
        };
        let seal = encode_seal(self.synced_through, self.log.view);
        if file.file.write_all_at(&seal, self.position).is_ok() {
            self.position += BLOCK_BYTES as u64;
        }
    }

    /// Read the record of an op; `None` if it is gone or damaged.
    pub(crate) fn read(&self, op: u64, checksum: u128) -> Option<PrepareFrame> {
        let &place = self.index.get(&op)?;
        if place.checksum != checksum {
            return None;
        }
        let at = self.file_at(place.file)?;
        let frame = self.files[at].read(place, self.context.intake)?;
        (frame.header.checksum == checksum).then_some(frame)
    }

    fn file_at(&self, number: u64) -> Option<usize> {
        self.files
            .binary_search_by_key(&number, |file| file.number)
            .ok()
    }

    /// Forget all records of `from_op` and above. When this returns, a start will not find them, and a seal says that
    /// they are gone: older heads would vouch for them if a later view began with a longer log.
    pub(crate) fn truncate(&mut self, from_op: u64) -> io::Result<()> {
        self.written_through = self.written_through.min(from_op.saturating_sub(1));
        let cut = Cut::new(from_op, self.synced_through, self.log.view);
        self.synced_through = cut.synced();
        let mut spans = Vec::new();
        for file in &mut self.files {
            let (number, bytes) = (file.number, file.bytes);
            let gone = file.places.extract_if(.., |place| cut.includes(place.op));
            spans
                .extend(gone.map(|place| cut.span(number, place.offset, place.frame_bytes, bytes)));
        }
        self.erase(&spans)?;
        self.index.split_off(&from_op);
        self.seal();
        (self.files.last()).map_or(Ok(()), |last| last.file.sync_data())
    }

    /// Erase records durably.
    pub(super) fn erase(&self, spans: &[Span]) -> io::Result<()> {
        for step in erase(spans) {
            let (EraseStep::Write { file, .. } | EraseStep::Sync { file }) = step;
            let Some(at) = self.file_at(file) else {
                continue;
            };
            match step {
                EraseStep::Write { offset, bytes, .. } => {
                    self.files[at].file.write_all_at(&bytes, offset)?;
                }
                EraseStep::Sync { .. } => self.files[at].file.sync_data()?,
            }
        }
        Ok(())
    }

    /// Remove the oldest files, as long as they hold only ops below `below_op`. On a full disk they are kept until the
    /// next call.
    pub(crate) fn remove_files_below(&mut self, below_op: u64) -> io::Result<()> {
        let kept_back = self.files.len().saturating_sub(1);
        let gone = self.files[..kept_back]
            .iter()
            .take_while(|file| file.highest_op() < below_op)
            .count();
        if gone == 0 || !unless_full(self.write_list(gone))? {
            return Ok(());
        }
        for file in self.files.drain(..gone) {
            self.context.directory.remove(&file.name())?;
        }
        let oldest = self.files.first().map_or(0, |file| file.number);
        self.index.retain(|_, place| place.file >= oldest);
        Ok(())
    }

    /// Request the next file in advance, and notice if there will be none.
    fn request_spare_file(&self) {
        let Some(file) = self.files.last() else {
            return;
        };
        if self.position * 2 >= file.bytes && self.context.disk.claim_spare_request() {
            let bytes = self.next_bytes(0);
            // Without the thread the file is created when it is needed.
            let _ = self.context.jobs.send(FileJob::Spare { bytes });
        }
    }

    fn next_bytes(&self, needed: u64) -> u64 {
        let grown = self
            .files
            .last()
            .map_or(FIRST_FILE_BYTES, |file| file.bytes.saturating_mul(GROWTH));
        grown
            .min(self.context.file_bytes)
            .max(needed.next_multiple_of(BLOCK_BYTES as u64))
    }

    fn fits(&self, needed: u64) -> bool {
        self.files
            .last()
            .is_some_and(|file| self.position + needed <= file.bytes)
    }

    /// Ensure that a group commit fits the last file. `false`: the disk is full.
    fn make_room(&mut self, needed: u64, op: u64) -> io::Result<bool> {
        if !self.fits(needed) && !self.begin_file(needed, op)? {
            return Ok(false);
        }
        if self.unlisted {
            if !unless_full(self.write_list(0))? {
                self.context.disk.set_full(true);
                return Ok(false);
            }
            self.unlisted = false;
            self.context.disk.set_full(false);
        }
        Ok(true)
    }

    /// Begin a new file, which is not listed yet. `false`: the disk is full.
    fn begin_file(&mut self, needed: u64, op: u64) -> io::Result<bool> {
        let spare = self
            .context
            .disk
            .take_spare()
            .filter(|spare| spare.bytes >= needed);
        let Some(spare) = spare.map_or_else(|| self.make_file(needed), |spare| Ok(Some(spare)))?
        else {
            self.context.disk.release_spare_name();
            return Ok(false);
        };
        self.sync_written()?;
        let last = self.files.last().map_or(0, |file| file.number);
        let number = op.max(last + 1);
        let directory = &self.context.directory;
        // The new name may need disk space of its own.
        let renamed = unless_full(directory.rename(&spare.name, &name_of(number)))?;
        self.context.disk.release_spare_name();
        if !renamed {
            self.context.disk.set_full(true);
            return Ok(false);
        }
        directory.sync()?;
        self.files.push(JournalFile {
            number,
            file: spare.file,
            bytes: spare.bytes,
            places: Vec::new(),
        });
        self.position = 0;
        self.unlisted = true;
        Ok(true)
    }

    /// Write the list of files, without the oldest `gone`.
    fn write_list(&self, gone: usize) -> io::Result<()> {
        let files: Vec<(u64, u64)> = self.files[gone..]
            .iter()
            .map(|file| (file.number, file.bytes))
            .collect();
        manifest::write(&self.context.directory, &files)
    }

    /// Create a file now. `None`: the disk is full.
    fn make_file(&self, needed: u64) -> io::Result<Option<PreallocatedFile>> {
        let JournalContext {
            directory, disk, ..
        } = &self.context;
        let bytes = self.next_bytes(needed);
        disk.set_next_file_bytes(bytes);
        match make_journal_file(directory, "next", bytes) {
            Err(error) if is_full(&error) => {
                disk.note_no_space();
                Ok(None)
            }
            Ok(spare) => {
                disk.set_full(false);
                Ok(Some(spare))
            }
            Err(error) => Err(error),
        }
    }
}

/// Return whether a write succeeded; `false` if the disk is full.
fn unless_full(written: io::Result<()>) -> io::Result<bool> {
    match written {
        Err(error) if is_full(&error) => Ok(false),
        written => written.map(|()| true),
    }
}

/// Name of a file of the journal.
pub(crate) fn name_of(number: u64) -> String {
    format!("wal-{number:020}.log")
}

/// Numbers and sizes of the journal files in a data directory, ascending.
pub(crate) fn list(directory: &DataDirectory) -> io::Result<Vec<(u64, u64)>> {
    let mut files = Vec::new();
    for name in directory.names()? {
        let number = name
            .strip_prefix("wal-")
            .and_then(|name| name.strip_suffix(".log"))
            .and_then(|number| number.parse::<u64>().ok());
        if let (Some(number), Some(bytes)) = (number, directory.length(&name)?) {
            files.push((number, bytes));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Open a file that a scan has read.
pub(crate) fn open_file(
    directory: &DataDirectory,
    number: u64,
    bytes: u64,
    places: Vec<Place>,
    opening: OpenMode,
) -> io::Result<JournalFile> {
    Ok(JournalFile {
        number,
        file: directory.open(&name_of(number), opening)?,
        bytes,
        places,
    })
}
