//! Files `checkpoint-<op>.state`: images of the state machine and of the client table.
//!
//! ```text
//! image = length of the client table (u64, little-endian), client table, state
//! ```
//!
//! An image has no checksum of its own: its length and XXH3-128 are in the superblock, or are given by the caller.

use std::{io, path::PathBuf};

use headrace_buffer::Slice;
use headrace_vsr::frame::digest;

use super::directory::{DataDirectory, unfinished};
use crate::surroundings::{OpenFile, OpenMode};

const LENGTH_BYTES: usize = 8;
/// Name of an incoming image of a peer until it is complete.
const INCOMING: &str = "checkpoint-incoming";
/// Number of image files kept beside the newest, because peers may still be fetching them.
const OLDER_KEPT: usize = 1;

/// Length and digest of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageDigest {
    pub(crate) length: u64,
    pub(crate) digest: u128,
}

/// Both parts of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) clients: Slice,
    pub(crate) state: Slice,
}

/// Images of one data directory.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    directory: DataDirectory,
    incoming: Option<(u64, Box<dyn OpenFile>)>,
}

impl Checkpoints {
    pub(crate) fn new(directory: &DataDirectory) -> Self {
        Self {
            directory: directory.clone(),
            incoming: None,
        }
    }

    pub(crate) fn path(&self, op: u64) -> PathBuf {
        self.directory.join(&name_of(op))
    }

    /// Length of an image's file.
    pub(crate) fn length(&self, op: u64) -> io::Result<u64> {
        Ok(self.directory.length(&name_of(op))?.unwrap_or(0))
    }

    /// Write an image. When this returns, it is durable.
    pub(crate) fn write(&self, op: u64, clients: &[u8], state: &[u8]) -> io::Result<ImageDigest> {
        let mut image = Vec::with_capacity(LENGTH_BYTES + clients.len() + state.len());
        image.extend_from_slice(&(clients.len() as u64).to_le_bytes());
        image.extend_from_slice(clients);
        image.extend_from_slice(state);
        let (name, unfinished) = (name_of(op), unfinished(&name_of(op)));
        let written = self
            .directory
            .open(&unfinished, OpenMode::Replace)
            .and_then(|file| {
                file.write_all_at(&image, 0)?;
                file.sync_all()
            });
        if let Err(error) = written {
            // Frees space on a full disk.
            let _ = self.directory.remove(&unfinished);
            return Err(error);
        }
        self.directory.rename(&unfinished, &name)?;
        self.directory.sync()?;
        Ok(ImageDigest {
            length: image.len() as u64,
            digest: digest(&image),
        })
    }

    /// Read an image; `None` if there is none, or its length or digest differs.
    pub(crate) fn read(&self, op: u64, name: ImageDigest) -> io::Result<Option<Image>> {
        let bytes = self.directory.read(&name_of(op))?;
        Ok(bytes.and_then(|bytes| parse(bytes, name)))
    }

    /// Read bytes of an image for a peer, which verifies them; `None` if they do not exist.
    pub(crate) fn read_chunk(&self, op: u64, offset: u64, length: u32) -> Option<Slice> {
        let file = self.directory.open(&name_of(op), OpenMode::Read).ok()?;
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, offset).ok()?;
        Some(Slice::from_vec(bytes))
    }

    /// Write bytes of a peer's image; offset 0 begins a new file.
    pub(crate) fn write_chunk(&mut self, op: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset == 0 {
            let file = self
                .directory
                .open(&unfinished(INCOMING), OpenMode::Replace)?;
            self.incoming = Some((op, file));
        }
        match &self.incoming {
            Some((of, file)) if *of == op => file.write_all_at(bytes, offset),
            // Verification will detect the gap.
            _ => Ok(()),
        }
    }

    /// Give a peer's image its final name, if its length and digest match. When this returns, the image is durable.
    pub(crate) fn install(&mut self, op: u64, name: ImageDigest) -> io::Result<Option<Image>> {
        let Some((_, file)) = self.incoming.take().filter(|&(of, _)| of == op) else {
            return Ok(None);
        };
        let Some(image) = parse(file.read_all()?, name) else {
            self.directory.remove(&unfinished(INCOMING))?;
            return Ok(None);
        };
        file.sync_all()?;
        self.directory.rename(&unfinished(INCOMING), &name_of(op))?;
        self.directory.sync()?;
        Ok(Some(image))
    }

    /// Remove the incomplete image of a peer, which is no longer wanted.
    pub(crate) fn abandon(&mut self) -> io::Result<()> {
        match self.incoming.take() {
            Some(_) => self.directory.remove(&unfinished(INCOMING)),
            None => Ok(()),
        }
    }

    /// Remove images older than `op` except the newest of them, and an incoming image that is not newer than `op`.
    /// Images of later ops are kept.
    pub(crate) fn remove_older_than(&mut self, op: u64) -> io::Result<()> {
        if self.incoming.as_ref().is_some_and(|(of, _)| *of <= op) {
            self.abandon()?;
        }
        let mut older: Vec<u64> = self
            .ops()?
            .into_iter()
            .filter(|&image| image < op)
            .collect();
        older.truncate(older.len().saturating_sub(OLDER_KEPT));
        for image in older {
            self.directory.remove(&name_of(image))?;
        }
        Ok(())
    }

    /// Ops of the images, ascending.
    pub(crate) fn ops(&self) -> io::Result<Vec<u64>> {
        let mut ops = Vec::new();
        for name in self.directory.names()? {
            let op = name
                .strip_prefix("checkpoint-")
                .and_then(|name| name.strip_suffix(".state"));
            ops.extend(op.and_then(|op| op.parse::<u64>().ok()));
        }
        ops.sort_unstable();
        Ok(ops)
    }
}

fn name_of(op: u64) -> String {
    format!("checkpoint-{op:020}.state")
}

fn parse(bytes: Vec<u8>, name: ImageDigest) -> Option<Image> {
    if bytes.len() as u64 != name.length || digest(&bytes) != name.digest {
        return None;
    }
    let clients = u64::from_le_bytes(*bytes.first_chunk::<LENGTH_BYTES>()?);
    let state_at = LENGTH_BYTES.checked_add(usize::try_from(clients).ok()?)?;
    if state_at > bytes.len() {
        return None;
    }
    let bytes = Slice::from_vec(bytes);
    Some(Image {
        clients: bytes.slice(LENGTH_BYTES..state_at),
        state: bytes.slice(state_at..),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CTL-5.
    #[test]
    fn an_image_travels_in_chunks() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (sender, mut receiver) = (
            Checkpoints::new(&DataDirectory::on_disk(from.path())),
            Checkpoints::new(&DataDirectory::on_disk(to.path())),
        );
        let name = sender.write(9, b"clients", &[7; 5000]).unwrap();
        let mut offset = 0;
        while offset < name.length {
            let length = 1024.min(name.length - offset);
            let chunk = sender
                .read_chunk(9, offset, u32::try_from(length).unwrap())
                .unwrap();
            receiver.write_chunk(9, offset, &chunk).unwrap();
            offset += length;
        }
        let image = receiver.install(9, name).unwrap().unwrap();
        assert_eq!(&*image.clients, b"clients");
        assert_eq!(&*image.state, [7; 5000]);
        assert_eq!(receiver.read(9, name).unwrap(), Some(image));
        assert!(sender.read_chunk(9, 5000, 100).is_none());
        assert!(sender.read_chunk(8, 0, 1).is_none());
    }

    #[test]
    fn another_image_than_promised_is_not_installed() {
        let directory = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::new(&DataDirectory::on_disk(directory.path()));
        let name = checkpoints.write(9, b"", b"right").unwrap();
        checkpoints.write_chunk(10, 0, b"wrong").unwrap();
        assert_eq!(checkpoints.install(10, name).unwrap(), None);
        assert_eq!(checkpoints.install(10, name).unwrap(), None);
        assert_eq!(checkpoints.ops().unwrap(), [9]);
        assert_eq!(
            checkpoints
                .read(9, ImageDigest { length: 1, ..name })
                .unwrap(),
            None
        );
    }

    /// An abandoned image would otherwise occupy the space of an entire image until the next start.
    #[test]
    fn what_has_come_of_an_image_goes_when_it_is_not_wanted_any_more() {
        let directory = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::new(&DataDirectory::on_disk(directory.path()));
        let is_there = || std::fs::exists(directory.path().join(unfinished(INCOMING))).unwrap();
        checkpoints.write_chunk(20, 0, b"a part").unwrap();
        checkpoints.remove_older_than(19).unwrap();
        assert!(is_there());
        checkpoints.remove_older_than(20).unwrap();
        assert!(!is_there());
        checkpoints.write_chunk(30, 0, b"a part").unwrap();
        checkpoints.abandon().unwrap();
        checkpoints.abandon().unwrap();
        assert!(!is_there());
    }

    #[test]
    fn the_newest_two_images_stay() {
        let directory = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::new(&DataDirectory::on_disk(directory.path()));
        for op in [1, 20, 300] {
            checkpoints.write(op, b"", b"state").unwrap();
        }
        checkpoints.remove_older_than(300).unwrap();
        assert_eq!(checkpoints.ops().unwrap(), [20, 300]);
    }
}
