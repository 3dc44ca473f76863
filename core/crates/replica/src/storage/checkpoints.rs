//! The files `checkpoint-<op>.state`: images of the state machine and of the client table.
//!
//! ```text
//! image = length of the client table (u64, little-endian), client table, state
//! ```
//!
//! An image has no checksum of its own: its length and XXH3-128 are in the superblock, or were asked for by name.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use headrace_buffer::Slice;
use headrace_vsr::frame::digest;

use super::folder::{UNFINISHED, options, sync_folder};

const LENGTH_BYTES: usize = 8;
/// Image files kept beside the newest: what peers may still be fetching.
const OLDER_KEPT: usize = 1;

/// Length and digest of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageName {
    pub(crate) length: u64,
    pub(crate) digest: u128,
}

/// Both parts of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) clients: Slice,
    pub(crate) state: Slice,
}

/// The images of one folder.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    folder: PathBuf,
    incoming: Option<(u64, File)>,
}

impl Checkpoints {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            incoming: None,
        }
    }

    pub(crate) fn path(&self, op: u64) -> PathBuf {
        self.folder.join(format!("checkpoint-{op:020}.state"))
    }

    fn incoming_path(&self) -> PathBuf {
        self.folder
            .join("checkpoint-incoming")
            .with_extension(UNFINISHED)
    }

    /// Write an image. When this returns, it is durable.
    pub(crate) fn write(&self, op: u64, clients: &[u8], state: &[u8]) -> io::Result<ImageName> {
        let mut image = Vec::with_capacity(LENGTH_BYTES + clients.len() + state.len());
        image.extend_from_slice(&(clients.len() as u64).to_le_bytes());
        image.extend_from_slice(clients);
        image.extend_from_slice(state);
        let path = self.path(op);
        let unfinished = path.with_extension(UNFINISHED);
        let written = options()
            .create(true)
            .truncate(true)
            .open(&unfinished)
            .and_then(|mut file| {
                file.write_all(&image)?;
                file.sync_all()
            });
        if let Err(error) = written {
            // Full disks get better by it.
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        fs::rename(&unfinished, &path)?;
        sync_folder(&self.folder)?;
        Ok(ImageName {
            length: image.len() as u64,
            digest: digest(&image),
        })
    }

    /// Read an image; `None` when it is not there or not the one of that name.
    pub(crate) fn read(&self, op: u64, name: ImageName) -> io::Result<Option<Image>> {
        let bytes = match fs::read(self.path(op)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(parse(bytes, name))
    }

    /// Bytes of an image for a peer, who verifies them; `None` when they are not there.
    pub(crate) fn read_chunk(&self, op: u64, offset: u64, length: u32) -> Option<Slice> {
        let file = File::open(self.path(op)).ok()?;
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, offset).ok()?;
        Some(Slice::from_vec(bytes))
    }

    /// Take bytes of a peer's image; the first ones begin a new file.
    pub(crate) fn write_chunk(&mut self, op: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset == 0 {
            let file = options()
                .create(true)
                .truncate(true)
                .open(self.incoming_path())?;
            self.incoming = Some((op, file));
        }
        match &self.incoming {
            Some((of, file)) if *of == op => file.write_all_at(bytes, offset),
            // Verification will find the hole.
            _ => Ok(()),
        }
    }

    /// Give a peer's image its name, if it is the one that was promised. When this returns, it is durable.
    pub(crate) fn install(&mut self, op: u64, name: ImageName) -> io::Result<Option<Image>> {
        let Some((_, mut file)) = self.incoming.take().filter(|&(of, _)| of == op) else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        io::Seek::rewind(&mut file)?;
        file.read_to_end(&mut bytes)?;
        let Some(image) = parse(bytes, name) else {
            fs::remove_file(self.incoming_path())?;
            return Ok(None);
        };
        file.sync_all()?;
        fs::rename(self.incoming_path(), self.path(op))?;
        sync_folder(&self.folder)?;
        Ok(Some(image))
    }

    /// Remove images older than `op`, but for the newest of them, and those of later ops, which nothing names.
    pub(crate) fn keep_from(&self, op: u64) -> io::Result<()> {
        let mut older: Vec<u64> = self
            .ops()?
            .into_iter()
            .filter(|&image| image < op)
            .collect();
        older.truncate(older.len().saturating_sub(OLDER_KEPT));
        for image in older {
            fs::remove_file(self.path(image))?;
        }
        Ok(())
    }

    /// Ops of the images, ascending.
    pub(crate) fn ops(&self) -> io::Result<Vec<u64>> {
        let mut ops = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let op = name
                .to_str()
                .and_then(|name| name.strip_prefix("checkpoint-")?.strip_suffix(".state"));
            ops.extend(op.and_then(|op| op.parse::<u64>().ok()));
        }
        ops.sort_unstable();
        Ok(ops)
    }
}

fn parse(bytes: Vec<u8>, name: ImageName) -> Option<Image> {
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
        let (sender, mut receiver) = (Checkpoints::new(from.path()), Checkpoints::new(to.path()));
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
        let folder = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::new(folder.path());
        let name = checkpoints.write(9, b"", b"right").unwrap();
        checkpoints.write_chunk(10, 0, b"wrong").unwrap();
        assert_eq!(checkpoints.install(10, name).unwrap(), None);
        assert_eq!(checkpoints.install(10, name).unwrap(), None);
        assert_eq!(checkpoints.ops().unwrap(), [9]);
        assert_eq!(
            checkpoints
                .read(9, ImageName { length: 1, ..name })
                .unwrap(),
            None
        );
    }

    #[test]
    fn the_newest_two_images_stay() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(folder.path());
        for op in [1, 20, 300] {
            checkpoints.write(op, b"", b"state").unwrap();
        }
        checkpoints.keep_from(300).unwrap();
        assert_eq!(checkpoints.ops().unwrap(), [20, 300]);
    }
}
