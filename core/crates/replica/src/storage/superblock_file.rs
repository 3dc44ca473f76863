//! The file `superblock`: four copies, written pair by pair in a place that was taken once and for all.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use headrace_vsr::superblock::{self, COPIES, COPY_BYTES, OpenError, Superblock};

use super::folder::{UNFINISHED, options, sync_folder};
use crate::errors::StartError;

const NAME: &str = "superblock";
const ADVICE: &str = "Restore the folder from a backup; with peers that are whole, move it away and start with an empty \
                      one";

/// The open file, and what it holds.
#[derive(Debug)]
pub(crate) struct SuperblockFile {
    file: File,
    /// Sync what is written.
    sync: bool,
}

impl SuperblockFile {
    fn path(folder: &Path) -> PathBuf {
        folder.join(NAME)
    }

    /// Read the superblock in force; `None` when the folder never had one. Changes nothing.
    pub(crate) fn read(folder: &Path) -> Result<Option<superblock::Opened>, StartError> {
        let path = Self::path(folder);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
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
                why: format!("has the newer form {version}"),
            }),
            Err(error) => Err(StartError::Damaged {
                path,
                why: error.to_string(),
                advice: ADVICE,
            }),
        }
    }

    /// Make the file with the first superblock in it: all of it or nothing.
    pub(crate) fn create(
        folder: &Path,
        first: &Superblock,
        sync: bool,
    ) -> Result<Self, StartError> {
        let path = Self::path(folder);
        let unfinished = path.with_extension(UNFINISHED);
        let write = || -> io::Result<File> {
            let mut file = options().create(true).truncate(true).open(&unfinished)?;
            for copy in 0..COPIES {
                file.write_all(&*first.encode(copy))?;
            }
            if sync {
                file.sync_all()?;
            }
            fs::rename(&unfinished, &path)?;
            if sync {
                sync_folder(folder)?;
            }
            Ok(file)
        };
        match write() {
            Ok(file) => Ok(Self { file, sync }),
            Err(source) => Err(StartError::storage("write", &path, source)),
        }
    }

    /// Open the file of a folder that has one, and write the copies that do not hold what they should.
    pub(crate) fn open(
        folder: &Path,
        opened: &superblock::Opened,
        sync: bool,
    ) -> Result<Self, StartError> {
        let path = Self::path(folder);
        let open = || -> io::Result<Self> {
            let this = Self {
                file: options().open(&path)?,
                sync,
            };
            if !opened.repair.is_empty() {
                this.write_copies(&opened.superblock, &opened.repair)?;
            }
            Ok(this)
        };
        open().map_err(|source| StartError::storage("open", &path, source))
    }

    /// Replace the superblock. When this returns, it is durable.
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
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(SuperblockFile::read(folder.path()).unwrap(), None);
        let file = SuperblockFile::create(folder.path(), &first(), true).unwrap();
        file.write(&next(&first())).unwrap();
        let opened = SuperblockFile::read(folder.path()).unwrap().unwrap();
        assert_eq!(opened.superblock, next(&first()));
        assert!(opened.repair.is_empty());
    }

    /// CTL-5.
    #[test]
    fn one_damaged_pair_is_mended_and_two_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        SuperblockFile::create(folder.path(), &first(), true).unwrap();
        let path = SuperblockFile::path(folder.path());
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        bytes[COPY_BYTES * 3 + 100] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let opened = SuperblockFile::read(folder.path()).unwrap().unwrap();
        assert_eq!(opened.repair, [0, 3]);
        SuperblockFile::open(folder.path(), &opened, true).unwrap();
        let mended = SuperblockFile::read(folder.path()).unwrap().unwrap();
        assert!(mended.repair.is_empty());

        for copy in 0..3 {
            bytes[COPY_BYTES * copy + 200] ^= 1;
        }
        fs::write(&path, &bytes).unwrap();
        let refusal = SuperblockFile::read(folder.path()).unwrap_err();
        assert_eq!(refusal.reason(), "damaged");
        assert!(refusal.to_string().contains("Restore the folder"));
        fs::write(&path, &bytes[..5000]).unwrap();
        assert_eq!(
            SuperblockFile::read(folder.path()).unwrap_err().reason(),
            "damaged"
        );
    }
}
