//! File `superblock`: four copies, written pair by pair at fixed, preallocated offsets.

use std::io;

use headrace_vsr::superblock::{self, COPIES, COPY_BYTES, OpenError, Superblock};

use super::folder::{Folder, unfinished};
use crate::{
    errors::{REPLACE_FOLDER, StartError},
    surroundings::{OpenFile, Opening},
};

const NAME: &str = "superblock";
/// Open file with its content.
#[derive(Debug)]
pub(crate) struct SuperblockFile {
    file: Box<dyn OpenFile>,
    /// True if writes are synced.
    sync: bool,
}

impl SuperblockFile {
    /// Read the superblock in force; `None` if the data directory never had one. Changes nothing.
    pub(crate) fn read(folder: &Folder) -> Result<Option<superblock::Opened>, StartError> {
        let path = folder.join(NAME);
        let bytes = match folder.read(NAME) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(source) => return Err(StartError::storage("read", &path, source)),
        };
        match superblock::open(&bytes) {
            Ok(opened) => Ok(Some(opened)),
            Err(OpenError::Version(version)) if version < superblock::VERSION => {
                Err(StartError::OlderRelease {
                    path,
                    why: format!("has the older form {version}"),
                })
            }
            Err(OpenError::Version(version)) => Err(StartError::NewerRelease {
                path,
                why: format!("has the newer form {version} of another release"),
            }),
            Err(error) => Err(StartError::Damaged {
                path,
                why: error.to_string(),
                advice: REPLACE_FOLDER,
            }),
        }
    }

    /// Create the file with the first superblock, atomically.
    pub(crate) fn create(
        folder: &Folder,
        first: &Superblock,
        sync: bool,
    ) -> Result<Self, StartError> {
        let unfinished = unfinished(NAME);
        let write = || -> io::Result<Box<dyn OpenFile>> {
            let file = folder.open(&unfinished, Opening::Replace)?;
            for copy in 0..COPIES {
                file.write_all_at(&*first.encode(copy), (copy * COPY_BYTES) as u64)?;
            }
            if sync {
                file.sync_all()?;
            }
            folder.rename(&unfinished, NAME)?;
            if sync {
                folder.sync()?;
            }
            Ok(file)
        };
        match write() {
            Ok(file) => Ok(Self { file, sync }),
            Err(source) => Err(StartError::storage("write", &folder.join(NAME), source)),
        }
    }

    /// Open the file of an existing data directory, and rewrite damaged or outdated copies.
    pub(crate) fn open(
        folder: &Folder,
        opened: &superblock::Opened,
        sync: bool,
    ) -> Result<Self, StartError> {
        let open = || -> io::Result<Self> {
            let this = Self {
                file: folder.open(NAME, Opening::Write)?,
                sync,
            };
            if !opened.repair.is_empty() {
                this.write_copies(&opened.superblock, &opened.repair)?;
            }
            Ok(this)
        };
        open().map_err(|source| StartError::storage("open", &folder.join(NAME), source))
    }

    /// Replace the superblock. When this returns, the new one is durable.
    pub(crate) fn write(&self, superblock: &Superblock) -> io::Result<()> {
        self.write_copies(superblock, &[0, 1])?;
        self.write_copies(superblock, &[2, 3])
    }

    fn write_copies(&self, superblock: &Superblock, copies: &[usize]) -> io::Result<()> {
        for &copy in copies {
            let offset = (copy * COPY_BYTES) as u64;
            self.file.write_all_at(&*superblock.encode(copy), offset)?;
        }
        if self.sync {
            self.file.sync_data()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn first() -> Superblock {
        Superblock::new(7, 1, 1, 0, vec![1], 0)
    }

    fn next(of: &Superblock) -> Superblock {
        let mut next = of.clone();
        next.sequence += 1;
        next.parent = of.checksum();
        next.incarnation += 1;
        next
    }

    #[test]
    fn what_was_written_is_found() {
        let kept = tempfile::tempdir().unwrap();
        let folder = &Folder::real(kept.path());
        assert_eq!(SuperblockFile::read(folder).unwrap(), None);
        let file = SuperblockFile::create(folder, &first(), true).unwrap();
        file.write(&next(&first())).unwrap();
        let opened = SuperblockFile::read(folder).unwrap().unwrap();
        assert_eq!(opened.superblock, next(&first()));
        assert!(opened.repair.is_empty());
    }

    /// CTL-5.
    #[test]
    fn one_damaged_pair_is_mended_and_two_are_refused() {
        let kept = tempfile::tempdir().unwrap();
        let folder = &Folder::real(kept.path());
        SuperblockFile::create(folder, &first(), true).unwrap();
        let path = folder.join(NAME);
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        bytes[COPY_BYTES * 3 + 100] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let opened = SuperblockFile::read(folder).unwrap().unwrap();
        assert_eq!(opened.repair, [0, 3]);
        SuperblockFile::open(folder, &opened, true).unwrap();
        let mended = SuperblockFile::read(folder).unwrap().unwrap();
        assert!(mended.repair.is_empty());

        for copy in 0..3 {
            bytes[COPY_BYTES * copy + 200] ^= 1;
        }
        fs::write(&path, &bytes).unwrap();
        let refusal = SuperblockFile::read(folder).unwrap_err();
        assert_eq!(refusal.reason(), "damaged");
        assert!(refusal.to_string().contains("restore the folder"));
        fs::write(&path, &bytes[..5000]).unwrap();
        assert_eq!(
            SuperblockFile::read(folder).unwrap_err().reason(),
            "damaged"
        );
    }
}
