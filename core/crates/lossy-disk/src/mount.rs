//! Disk as a mounted file system.

use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};

use crate::bytes::{Bytes, PAGE_BYTES};
use crate::disk::{Content, Directory, Disk, Node, Refusal};

/// Cache lifetime in the kernel. Zero, because a power loss changes files without the kernel's knowledge.
const REMEMBERED: Duration = Duration::ZERO;
const GENERATION: Generation = Generation(0);
const STAT_BLOCK_BYTES: usize = 512;
/// Maximum length of a file, which is held in memory. A longer file is an error of the program under test.
const FILE_BYTES_MAX: u64 = 8 << 30;
/// Size and free space reported by `statvfs`, in pages.
const PAGES: u64 = (64 << 30) / PAGE_BYTES as u64;

/// Disk, shared by the mount and the control of its power.
#[derive(Debug)]
pub struct Power {
    disk: Disk,
    /// Number of power cuts: files opened before the last one stay closed.
    cuts: u64,
}

impl Power {
    pub fn new(owner: u32, group: u32) -> Self {
        Self {
            disk: Disk::new(owner, group),
            cuts: 0,
        }
    }

    /// Lose power. All open files return errors from now on. Returns the names that were lost or restored.
    pub fn cut(&mut self, seed: u64) -> Vec<String> {
        self.cuts += 1;
        self.disk.lose_power(&mut Rng::with_seed(seed))
    }
}

pub struct Mounted(pub Arc<Mutex<Power>>);

impl Mounted {
    fn power(&self) -> MutexGuard<'_, Power> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes(&self, number: u64) -> Result<FileAttr, Refusal> {
        attributes(&self.power().disk, number)
    }

    /// Run an operation on the disk through an open file.
    fn through<T>(
        &self,
        handle: FileHandle,
        act: impl FnOnce(&mut Disk) -> Result<T, Refusal>,
    ) -> Result<T, Errno> {
        let mut power = self.power();
        if handle.0 != power.cuts {
            return Err(Errno::EIO);
        }
        act(&mut power.disk).map_err(errno)
    }

    fn make(
        &self,
        request: &Request,
        directory: INodeNo,
        name: &OsStr,
        mode: u32,
        content: Content,
    ) -> Result<FileAttr, Errno> {
        let name = text(name)?;
        let node = Node {
            content,
            mode: permissions(mode),
            owner: request.uid(),
            group: request.gid(),
            changed: SystemTime::now(),
        };
        let disk = &mut self.power().disk;
        let number = disk.make(directory.0, name, node).map_err(errno)?;
        attributes(disk, number).map_err(errno)
    }
}

fn errno(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::NotFound => Errno::ENOENT,
        Refusal::Exists => Errno::EEXIST,
        Refusal::NotADirectory => Errno::ENOTDIR,
        Refusal::IsADirectory => Errno::EISDIR,
        Refusal::NotEmpty => Errno::ENOTEMPTY,
    }
}

fn text(name: &OsStr) -> Result<&str, Errno> {
    name.to_str().ok_or(Errno::EILSEQ)
}

fn permissions(mode: u32) -> u16 {
    u16::try_from(mode & 0o7777).unwrap_or(0)
}

/// Convert a position or length that fits the address space.
fn memory(bytes: u64) -> Result<usize, Errno> {
    if bytes > FILE_BYTES_MAX {
        return Err(Errno::EFBIG);
    }
    usize::try_from(bytes).map_err(|_| Errno::EFBIG)
}

fn attributes(disk: &Disk, number: u64) -> Result<FileAttr, Refusal> {
    let node = disk.node(number)?;
    let (kind, length) = match &node.content {
        Content::File(bytes) => (FileType::RegularFile, bytes.length()),
        Content::Directory(_) => (FileType::Directory, PAGE_BYTES),
    };
    Ok(FileAttr {
        ino: INodeNo(number),
        size: length as u64,
        blocks: length.div_ceil(STAT_BLOCK_BYTES) as u64,
        atime: node.changed,
        mtime: node.changed,
        ctime: node.changed,
        crtime: node.changed,
        kind,
        perm: node.mode,
        nlink: 1,
        uid: node.owner,
        gid: node.group,
        rdev: 0,
        blksize: u32::try_from(PAGE_BYTES).unwrap_or(u32::MAX),
        flags: 0,
    })
}

fn reply_empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn reply_entry(reply: ReplyEntry, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attributes) => reply.entry(&REMEMBERED, &attributes, GENERATION),
        Err(error) => reply.error(error),
    }
}

fn reply_attributes(reply: ReplyAttr, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attributes) => reply.attr(&REMEMBERED, &attributes),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Mounted {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Allow several concurrent reads and writes of a file, as on common file systems, if the kernel supports that.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let disk = &self.power().disk;
        let found = text(name).and_then(|name| {
            disk.find(parent.0, name)
                .and_then(|number| attributes(disk, number))
                .map_err(errno)
        });
        reply_entry(reply, found);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply_attributes(reply, self.attributes(number.0).map_err(errno));
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        owner: Option<u32>,
        group: Option<u32>,
        length: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let disk = &mut self.power().disk;
        let mut set = || {
            if let Some(length) = length {
                let length = memory(length)?;
                disk.file_mut(number.0).map_err(errno)?.set_length(length);
            }
            let node = disk.node_mut(number.0).map_err(errno)?;
            node.mode = mode.map_or(node.mode, permissions);
            node.owner = owner.unwrap_or(node.owner);
            node.group = group.unwrap_or(node.group);
            attributes(disk, number.0).map_err(errno)
        };
        reply_attributes(reply, set());
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        reply: ReplyEntry,
    ) {
        reply_entry(
            reply,
            self.make(
                request,
                parent,
                name,
                mode & !mask,
                Content::Directory(Directory::default()),
            ),
        );
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.make(
            request,
            parent,
            name,
            mode & !mask,
            Content::File(Bytes::default()),
        ) {
            Ok(attributes) => {
                let handle = FileHandle(self.power().cuts);
                reply.created(
                    &REMEMBERED,
                    &attributes,
                    GENERATION,
                    handle,
                    FopenFlags::FOPEN_DIRECT_IO,
                );
            }
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(
            reply,
            text(name)
                .and_then(|name| self.power().disk.remove_file(parent.0, name).map_err(errno)),
        );
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(
            reply,
            text(name).and_then(|name| {
                self.power()
                    .disk
                    .remove_directory(parent.0, name)
                    .map_err(errno)
            }),
        );
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let rename = || {
            if flags.contains(RenameFlags::RENAME_EXCHANGE) {
                return Err(Errno::EINVAL);
            }
            let (name, new_name) = (text(name)?, text(new_name)?);
            let disk = &mut self.power().disk;
            if flags.contains(RenameFlags::RENAME_NOREPLACE)
                && disk.find(new_parent.0, new_name).is_ok()
            {
                return Err(Errno::EEXIST);
            }
            disk.rename((parent.0, name), (new_parent.0, new_name))
                .map_err(errno)
        };
        reply_empty(reply, rename());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Bypass the kernel's cache, which would not notice a power loss.
        reply.opened(FileHandle(self.power().cuts), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        start: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let power = self.power();
        let bytes = if handle.0 == power.cuts {
            power.disk.file(number.0).map_err(errno)
        } else {
            Err(Errno::EIO)
        };
        match bytes.and_then(|bytes| Ok(bytes.read(memory(start)?, memory(u64::from(length))?))) {
            Ok(data) => reply.data(data),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        start: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = memory(start + data.len() as u64).and_then(|end| {
            self.through(handle, |disk| {
                let bytes = disk.file_mut(number.0)?;
                bytes.write(end - data.len(), data);
                if flags.0 & libc::O_DSYNC != 0 {
                    bytes.sync();
                }
                Ok(())
            })
        });
        match written {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(reply, self.through(handle, |disk| disk.sync(number.0)));
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        start: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let keeps_length = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let clears = mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0;
        let result = memory(start)
            .and_then(|start| Ok((start, memory(start as u64 + length)?)))
            .and_then(|(start, end)| {
                self.through(handle, |disk| {
                    let bytes = disk.file_mut(number.0)?;
                    if clears {
                        bytes.clear(start, end);
                    }
                    if !keeps_length && bytes.length() < end {
                        bytes.set_length(end);
                    }
                    Ok(())
                })
            });
        reply_empty(reply, result);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(self.power().cuts), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        start: u64,
        mut reply: ReplyDirectory,
    ) {
        let disk = &self.power().disk;
        let directory = match disk.directory(number.0) {
            Ok(directory) => directory,
            Err(refusal) => return reply.error(errno(refusal)),
        };
        // Offsets are positions: a name removed during a listing shifts the others, so a listing in parts may miss one,
        // as on other file systems. The kernel requests some hundreds at a time.
        let skipped = usize::try_from(start).unwrap_or(usize::MAX);
        for (index, (name, &entry)) in directory.names().iter().enumerate().skip(skipped) {
            let kind = match disk.node(entry).map(|node| &node.content) {
                Ok(Content::Directory(_)) => FileType::Directory,
                _ => FileType::RegularFile,
            };
            if reply.add(INodeNo(entry), index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.through(handle, |disk| disk.sync(number.0)));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let page = u32::try_from(PAGE_BYTES).unwrap_or(u32::MAX);
        reply.statfs(PAGES, PAGES, PAGES, PAGES, PAGES, page, 255, page);
    }
}
