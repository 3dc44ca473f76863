//! Storage of a replica.

mod background;
mod checkpoints;
mod folder;
mod journal;
mod manifest;
mod scan;
mod superblock_file;
mod writer;

pub(crate) use self::{
    background::{Background, Disk, FileJob, FileWorker},
    checkpoints::{Checkpoints, Image, ImageName},
    folder::{Folder, FolderLock, MachineFiles},
    journal::{Journal, JournalContext},
    manifest::{clear_unlisted, create as create_journal_list},
    scan::{Scanned, has_files, scan},
    superblock_file::SuperblockFile,
    writer::{JournalJob, JournalSide, Writer, WriterApart},
};
