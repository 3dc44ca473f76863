//! File `superblock`: four copies, written pair by pair at fixed, preallocated offsets.

use std::io;

use headrace_vsr::superblock::{self, COPIES, COPY_BYTES, OpenError, Superblock};

use super::directory::{DataDirectory, unfinished};
use crate::{
    errors::{REPLACE_DATA_DIRECTORY, StartError},
    surroundings::{OpenFile, OpenMode},
};

const NAME: &str = "superblock";
/// Open file with its content.
#[derive(Debug)]
pub(crate) struct SuperblockFile {
    file: Box<dyn OpenFile>,
}

impl SuperblockFile {
    /// Read the superblock in force; `None` if the data directory never had one. Changes nothing.
    ///
    /// The copies are read from the device. A pair that a killed process has not synced would be in force, and the power
    /// could fail while the other pair is made equal to it: no copy would be left.
    pub(crate) fn read(
        directory: &DataDirectory,
    ) -> Result<Option<superblock::Opened>, StartError> {
        let path = directory.join(NAME);
        let bytes = match directory.read_from_device(NAME) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
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
                finding: error.to_string(),
                advice: REPLACE_DATA_DIRECTORY,
            }),
        }
    }

    /// Create the file with the first superblock, atomically.
    pub(crate) fn create(
        directory: &DataDirectory,
        first: &Superblock,
    ) -> Result<Self, StartError> {
        let unfinished = unfinished(NAME);
        let write = || -> io::Result<Box<dyn OpenFile>> {
            let file = directory.open(&unfinished, OpenMode::Replace)?;
            for copy in 0..COPIES {
                file.write_all_at(&*first.encode(copy), (copy * COPY_BYTES) as u64)?;
            }
            file.sync_all()?;
            directory.rename(&unfinished, NAME)?;
            directory.sync()?;
            Ok(file)
        };
        match write() {
            Ok(file) => Ok(Self { file }),
            Err(source) => Err(StartError::storage("write", &directory.join(NAME), source)),
        }
    }

    /// Open the file of an existing data directory, and rewrite damaged or outdated copies.
    pub(crate) fn open(
        directory: &DataDirectory,
        opened: &superblock::Opened,
    ) -> Result<Self, StartError> {
        let open = || -> io::Result<Self> {
            let this = Self {
                file: directory.open(NAME, OpenMode::Write)?,
            };
            if !opened.repair.is_empty() {
                this.write_copies(&opened.superblock, &opened.repair)?;
            }
            Ok(this)
        };
        open().map_err(|source| StartError::storage("open", &directory.join(NAME), source))
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
        self.file.sync_data()
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
        let directory = &DataDirectory::on_disk(kept.path());
        assert_eq!(SuperblockFile::read(directory).unwrap(), None);
        let file = SuperblockFile::create(directory, &first()).unwrap();
        file.write(&next(&first())).unwrap();
        let opened = SuperblockFile::read(directory).unwrap().unwrap();
        assert_eq!(opened.superblock, next(&first()));
        assert!(opened.repair.is_empty());
    }

    /// CTL-5.
    #[test]
    fn one_damaged_pair_is_mended_and_two_are_refused() {
        let kept = tempfile::tempdir().unwrap();
        let directory = &DataDirectory::on_disk(kept.path());
        SuperblockFile::create(directory, &first()).unwrap();
        let path = directory.join(NAME);
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        bytes[COPY_BYTES * 3 + 100] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let opened = SuperblockFile::read(directory).unwrap().unwrap();
        assert_eq!(opened.repair, [0, 3]);
        SuperblockFile::open(directory, &opened).unwrap();
        let mended = SuperblockFile::read(directory).unwrap().unwrap();
        assert!(mended.repair.is_empty());

        for copy in 0..3 {
            bytes[COPY_BYTES * copy + 200] ^= 1;
        }
        fs::write(&path, &bytes).unwrap();
        let refusal = SuperblockFile::read(directory).unwrap_err();
        assert_eq!(refusal.reason(), "damaged");
        assert!(refusal.to_string().contains("restore the directory"));
        fs::write(&path, &bytes[..5000]).unwrap();
        assert_eq!(
            SuperblockFile::read(directory).unwrap_err().reason(),
            "damaged"
        );
    }
}
