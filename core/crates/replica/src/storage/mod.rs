//! Storage of a replica.

mod background;
mod checkpoints;
mod directory;
mod journal;
mod manifest;
mod scan;
mod superblock_file;
mod writer;

pub(crate) use self::{
    background::{Disk, FileJob, FileWorker, FileWorkerHandle},
    checkpoints::{Checkpoints, Image, ImageDigest},
    directory::{DataDirectory, DirectoryLock, MachineFiles},
    journal::{Journal, JournalContext},
    manifest::{clear_unlisted, create as create_journal_list},
    scan::{Scanned, has_files, scan},
    superblock_file::SuperblockFile,
    writer::{JournalJob, JournalWriter, Writer, WriterThread},
};
