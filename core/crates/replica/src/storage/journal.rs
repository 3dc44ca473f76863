//! The files `wal-<number>.log`: records of prepares, in the format of [`headrace_vsr::journal`].
//!
//! Files are filled with zeros before they are used, so that a sync has to write nothing but the records, and a full
//! disk shows before a command is taken. The first file is small; each is four times as large as the one before, up to
//! the configured size. The last one is written to. A file goes when all records in it are of ops that nobody needs.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, mpsc},
};

use headrace_buffer::Slice;
use headrace_vsr::{
    frame::{Frame, Intake, PrepareFrame},
    journal::{BLOCK_BYTES, GroupCommit, HEAD_BYTES, Place, durable_through, encode_seal},
};

use super::{
    background::{Disk, FileJob, Spare, is_full, make_journal_file},
    folder::Folder,
    manifest,
};
use crate::surroundings::{OpenFile, Opening};

const FIRST_FILE_BYTES: u64 = 4 * 1024 * 1024;
const GROWTH: u64 = 4;

/// One file.
#[derive(Debug)]
pub(crate) struct JournalFile {
    pub(crate) number: u64,
    pub(crate) file: Box<dyn OpenFile>,
    pub(crate) bytes: u64,
    /// All records that were ever written to it and not cut, in their order.
    pub(crate) places: Vec<Place>,
}

impl JournalFile {
    pub(crate) fn name(&self) -> String {
        name_of(self.number)
    }

    /// Read a record; `None` when it is not as it was written, also when the device is asked again: a copy that is taken for
    /// damaged can keep an operation undecided.
    pub(crate) fn read(&self, place: Place, intake: Intake) -> Option<PrepareFrame> {
        self.read_once(place, intake).or_else(|| {
            self.file.forget_cached().ok()?;
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

/// What the journal needs to know of the replica.
#[derive(Debug)]
pub(crate) struct JournalContext {
    pub(crate) folder: Folder,
    pub(crate) file_bytes: u64,
    pub(crate) sync: bool,
    pub(crate) intake: Intake,
    pub(crate) disk: Arc<Disk>,
    pub(crate) jobs: mpsc::Sender<FileJob>,
}

/// The files, and where each op is in them.
#[derive(Debug)]
pub(crate) struct Journal {
    context: JournalContext,
    /// By number, ascending; the last is written to.
    files: Vec<JournalFile>,
    /// Where the next group commit goes in the last file.
    position: u64,
    /// The newest record of each op.
    index: BTreeMap<u64, Place>,
    /// The highest op of which all records are durable.
    synced_through: u64,
    /// The log view of the newest durable superblock: heads tell of which log they speak.
    log_view: u32,
    /// The newest record says less than is durable.
    unsealed: bool,
    /// The last file is not on the list yet, as the disk was full.
    unlisted: bool,
}

impl Journal {
    /// Go on behind what a scan has found. `position`: in the last file, a multiple of the block.
    pub(crate) fn new(
        context: JournalContext,
        files: Vec<JournalFile>,
        position: u64,
        synced_through: u64,
        log_view: u32,
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
            synced_through,
            log_view,
            // What the start believed is durable now, and no head may say so yet.
            unsealed: synced_through > 0,
            unlisted: false,
        }
    }

    /// A superblock with this log view is durable.
    pub(crate) fn recorded(&mut self, log_view: u32) {
        self.log_view = log_view;
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.context.folder
    }

    pub(crate) fn file_count(&self) -> u64 {
        self.files.len() as u64
    }

    /// Write records with one sync. Returns the bytes written; `None` when the disk is full, and nothing has happened.
    pub(crate) fn append(&mut self, frames: &[&PrepareFrame]) -> io::Result<Option<u64>> {
        let mut group = GroupCommit::new(self.synced_through, self.log_view);
        let mut places = Vec::with_capacity(frames.len());
        for frame in frames {
            let offset = group.push(frame) as u64;
            places.push(Place {
                op: frame.header.op(),
                checksum: frame.header.checksum,
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
        if self.context.sync {
            file.file.sync_data()?;
        }
        for mut place in places {
            place.file = file.number;
            place.offset += self.position;
            file.places.push(place);
            self.index.insert(place.op, place);
            self.synced_through = durable_through(self.synced_through, place.op, |op| {
                self.index.contains_key(&op)
            });
        }
        self.position += length;
        self.unsealed = true;
        self.ask_for_spare();
        Ok(Some(length))
    }

    /// Whether the journal does not say yet that all of it is durable.
    pub(crate) fn wants_seal(&self) -> bool {
        self.unsealed
    }

    /// Say so, without waiting for the disk. A failure shows at the next append.
    pub(crate) fn seal(&mut self) {
        self.unsealed = false;
        let Some(file) = self.files.last() else {
            return;
        };
        if self.position + BLOCK_BYTES as u64 > file.bytes {
            return;
        }
        let seal = encode_seal(self.synced_through, self.log_view);
        if file.file.write_all_at(&seal, self.position).is_ok() {
            self.position += BLOCK_BYTES as u64;
        }
    }

    /// Read the record of an op; `None` when it is gone or not as it was written.
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

    /// Forget all records of `from_op` and above. When this returns, they will not be found by a start.
    pub(crate) fn truncate(&mut self, from_op: u64) -> io::Result<()> {
        for file in &mut self.files {
            let cut: Vec<Place> = file
                .places
                .extract_if(.., |place| place.op >= from_op)
                .collect();
            if cut.is_empty() {
                continue;
            }
            for place in cut {
                // A damaged record may say that it is longer than its file.
                let room = usize::try_from(file.bytes - place.offset).unwrap_or(usize::MAX);
                let bytes = (HEAD_BYTES + place.frame_bytes as usize).min(room);
                file.file.write_all_at(&vec![0; bytes], place.offset)?;
            }
            if self.context.sync {
                file.file.sync_data()?;
            }
        }
        self.index.split_off(&from_op);
        self.synced_through = self.synced_through.min(from_op.saturating_sub(1));
        self.unsealed = true;
        Ok(())
    }

    /// Remove the oldest files, as long as they hold nothing but ops below `below_op`. On a full disk they stay until
    /// the next time.
    pub(crate) fn collect(&mut self, below_op: u64) -> io::Result<()> {
        let kept_back = self.files.len().saturating_sub(1);
        let gone = self.files[..kept_back]
            .iter()
            .take_while(|file| file.highest_op() < below_op)
            .count();
        if gone == 0 || !room_for(self.write_list(gone))? {
            return Ok(());
        }
        for file in self.files.drain(..gone) {
            self.context.folder.remove(&file.name())?;
        }
        let oldest = self.files.first().map_or(0, |file| file.number);
        self.index.retain(|_, place| place.file >= oldest);
        Ok(())
    }

    /// Ask for the next file in time, and say so when there will be none.
    fn ask_for_spare(&self) {
        let Some(file) = self.files.last() else {
            return;
        };
        if self.position * 2 >= file.bytes && self.context.disk.wants_spare() {
            let bytes = self.next_bytes(0);
            // Without the thread the file is made when it is needed.
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

    /// See to it that a group commit fits the last file. `false`: the disk is full.
    fn make_room(&mut self, needed: u64, op: u64) -> io::Result<bool> {
        let fits = self
            .files
            .last()
            .is_some_and(|file| self.position + needed <= file.bytes);
        if !fits && !self.begin_file(needed, op)? {
            return Ok(false);
        }
        if self.unlisted {
            if !room_for(self.write_list(0))? {
                self.context.disk.set_full(true);
                return Ok(false);
            }
            self.unlisted = false;
            self.context.disk.set_full(false);
        }
        Ok(true)
    }

    /// Go on in a new file, which is not on the list yet. `false`: the disk is full.
    fn begin_file(&mut self, needed: u64, op: u64) -> io::Result<bool> {
        let spare = self
            .context
            .disk
            .take_spare()
            .filter(|spare| spare.bytes >= needed);
        let Some(spare) = spare.map_or_else(|| self.make_file(needed), |spare| Ok(Some(spare)))?
        else {
            return Ok(false);
        };
        let last = self.files.last().map_or(0, |file| file.number);
        let number = op.max(last + 1);
        let folder = &self.context.folder;
        // The name may want space of its own.
        if !room_for(folder.rename(&spare.name, &name_of(number)))? {
            self.context.disk.set_full(true);
            return Ok(false);
        }
        if self.context.sync {
            folder.sync()?;
        }
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

    /// Say which files there are, without the oldest `gone`.
    fn write_list(&self, gone: usize) -> io::Result<()> {
        let files: Vec<(u64, u64)> = self.files[gone..]
            .iter()
            .map(|file| (file.number, file.bytes))
            .collect();
        manifest::write(&self.context.folder, &files, self.context.sync)
    }

    /// Make a file now. `None`: the disk is full.
    fn make_file(&self, needed: u64) -> io::Result<Option<Spare>> {
        let JournalContext { folder, disk, .. } = &self.context;
        let bytes = self.next_bytes(needed);
        disk.want(bytes);
        match make_journal_file(folder, "next", bytes, self.context.sync) {
            Err(error) if is_full(&error) => {
                disk.set_full(true);
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

/// Whether it could be done, or the disk is full.
fn room_for(written: io::Result<()>) -> io::Result<bool> {
    match written {
        Err(error) if is_full(&error) => Ok(false),
        written => written.map(|()| true),
    }
}

/// The name of a file of the journal.
pub(crate) fn name_of(number: u64) -> String {
    format!("wal-{number:020}.log")
}

/// Numbers and sizes of the files in a folder, ascending.
pub(crate) fn list(folder: &Folder) -> io::Result<Vec<(u64, u64)>> {
    let mut files = Vec::new();
    for name in folder.names()? {
        let number = name
            .strip_prefix("wal-")
            .and_then(|name| name.strip_suffix(".log"))
            .and_then(|number| number.parse::<u64>().ok());
        if let (Some(number), Some(bytes)) = (number, folder.length(&name)?) {
            files.push((number, bytes));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Open a file that a scan has read.
pub(crate) fn open_file(
    folder: &Folder,
    number: u64,
    bytes: u64,
    places: Vec<Place>,
) -> io::Result<JournalFile> {
    Ok(JournalFile {
        number,
        file: folder.open(&name_of(number), Opening::Write)?,
        bytes,
        places,
    })
}
