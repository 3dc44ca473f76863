//! What a replica stands on: files, connections, clocks and randomness. The machine gives them, or a program that drives
//! replicas step by step in a world that it has made ([`Stepped`](crate::stepped::Stepped)).

use std::{
    fmt::Debug,
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
};

use headrace_vsr::neighbours::Reading;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// To be read; it has to be there.
    Read,
    /// To be read and written; it has to be there.
    Write,
    /// To be read and written; an empty one is made of what is there.
    Replace,
}

/// Files and folders by their paths. Only the last part of a path differs within one folder of a replica.
pub trait Files: Debug + Send + Sync {
    /// Makes a folder and those above it, each durable before the next.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;
    /// Takes a lock that holds until what is returned is dropped. Fails with `WouldBlock` when it is taken.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Debug + Send>>;
    /// Opens a file.
    fn open(&self, path: &Path, opening: Opening) -> io::Result<Box<dyn OpenFile>>;
    /// Length of a file in bytes.
    fn length(&self, path: &Path) -> io::Result<u64>;
    /// Names in a folder, in any order.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Gives a file another name, in place of what has had that one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// A file that is open, whatever its name is by now.
pub trait OpenFile: Debug + Send + Sync {
    /// Writes all of the bytes.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Reads as many bytes as there is room for.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
    /// Reads the whole file.
    fn read_all(&self) -> io::Result<Vec<u8>>;
    /// Makes what was written durable, and the length.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes what was written and everything that the file system knows of the file durable.
    fn sync_all(&self) -> io::Result<()>;
    /// Has what is read next come from the device.
    fn forget_cached(&self) -> io::Result<()>;
}

/// Clocks and randomness.
pub trait Machine: Debug + Send + Sync {
    /// The clocks as they are now.
    fn clock(&self) -> Reading;
    /// Fills `bytes` with what cannot be guessed.
    fn random(&self, bytes: &mut [u8]) -> io::Result<()>;
}

/// Connections with peers that do not come from sockets.
pub trait Network: Debug + Send + Sync {
    /// The next connection that a peer has dialled; `WouldBlock` when there is none.
    fn accept(&self) -> io::Result<Box<dyn Connection>>;
    /// Begins to dial a peer. The end comes through [`Stepped::dialled`](crate::stepped::Stepped::dialled).
    fn dial(&self, peer: u8);
}

/// A connection as a socket that never blocks.
pub trait Connection: Debug + Send + Read + Write {}

/// Everything that a replica stands on.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Where it keeps its folder.
    pub files: Arc<dyn Files>,
    /// Its clocks, and chance.
    pub machine: Arc<dyn Machine>,
    /// Where connections with peers come from; sockets if not given.
    pub network: Option<Arc<dyn Network>>,
}
