//! Environment of a replica: files, connections, clocks and randomness. Either the machine provides it, or a program
//! that runs replicas step by step in a simulated world ([`Stepped`](crate::stepped::Stepped)).

use std::{
    fmt::Debug,
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
};

use headrace_vsr::neighbours::Reading;

/// Mode in which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Read an existing file.
    Read,
    /// Read and write an existing file.
    Write,
    /// Read and write a file that is created or truncated.
    Replace,
}

/// File system, addressed by paths. The paths of one replica differ only in their last component.
pub trait Files: Debug + Send + Sync {
    /// Create a directory and its parents, each durable before the next.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;
    /// Take a lock that is held until the returned guard is dropped. Fails with `WouldBlock` if the lock is taken.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Debug + Send>>;
    /// Open a file.
    fn open(&self, path: &Path, opening: OpenMode) -> io::Result<Box<dyn OpenFile>>;
    /// Length of a file in bytes.
    fn length(&self, path: &Path) -> io::Result<u64>;
    /// Names in a directory, in any order.
    fn names(&self, directory: &Path) -> io::Result<Vec<String>>;
    /// Rename a file, replacing an existing one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Remove a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Make the names in a directory durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
}

/// Open file, independent of later renames.
pub trait OpenFile: Debug + Send + Sync {
    /// Write all of the bytes at the offset.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Fill `bytes` from the offset.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
    /// Read the file from start to end.
    fn read_all(&self) -> io::Result<Vec<u8>>;
    /// Make the written data and the length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Make the written data and all metadata of the file durable.
    fn sync_all(&self) -> io::Result<()>;
    /// Drop the cached pages, so that the next read comes from the device.
    fn drop_cached_pages(&self) -> io::Result<()>;
}

/// Clocks and randomness.
pub trait Machine: Debug + Send + Sync {
    /// Current reading of the clocks.
    fn clock(&self) -> Reading;
    /// Fill `bytes` with unpredictable values.
    fn random(&self, bytes: &mut [u8]) -> io::Result<()>;
}

/// Connections with peers that are not sockets.
pub trait Network: Debug + Send + Sync {
    /// Accept the next connection dialled by a peer; `WouldBlock` if there is none.
    fn accept(&self) -> io::Result<Box<dyn Connection>>;
    /// Begin to dial a peer. The outcome is reported through [`Stepped::dialled`](crate::stepped::Stepped::dialled).
    fn dial(&self, peer: u8);
}

/// Connection that behaves like a non-blocking socket.
pub trait Connection: Debug + Send + Read + Write {}

/// Environment of a replica.
#[derive(Debug, Clone)]
pub struct Environment {
    /// File system of the data directory.
    pub files: Arc<dyn Files>,
    /// Clocks and randomness.
    pub machine: Arc<dyn Machine>,
    /// Source of connections with peers; sockets if not given.
    pub network: Option<Arc<dyn Network>>,
}
