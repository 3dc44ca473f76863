//! Operations in the kernel: the memory they own, their next ring entry, the meaning of a result.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::Arc,
};

use headrace_buffer::{Buffer, Slice};
use io_uring::{opcode, squeue, types::Fd};
use rustix::io::Errno;

use super::vector::{Message, Vector};
use crate::{
    driver::{Outcome, socket},
    vectored::Progress,
};

/// Bytes of one ring entry; longer transfers take several.
const TRANSFER_BYTES_MAX: usize = 1 << 30;

/// One operation in flight. Stays in its slot, with all memory that the kernel may access, until its last ring entry
/// has completed.
pub(super) struct Flight {
    kind: Kind,
    /// True if the submitter has cancelled the operation or its socket is closed: it is not continued.
    cancelled: bool,
    /// Incarnation of its socket's number at the time of submission.
    life: u32,
}

pub(super) enum Kind {
    Accept {
        listener: RawFd,
    },
    Receive {
        socket: RawFd,
        buffer: Buffer,
        start: usize,
        minimum: usize,
        received: usize,
        quickack: bool,
    },
    Send {
        socket: RawFd,
        slices: Vec<Slice>,
        progress: Progress,
        message: Option<Box<Message>>,
    },
    ReadFile {
        file: Arc<OwnedFd>,
        position: u64,
        buffer: Buffer,
        start: usize,
        length: usize,
        done: usize,
    },
    WriteFile {
        file: Arc<OwnedFd>,
        position: u64,
        slices: Vec<Slice>,
        progress: Progress,
        vector: Vector,
    },
    SyncFile {
        file: Arc<OwnedFd>,
    },
    /// A job on a worker thread; never in the ring.
    Task,
}

/// Next step after a ring entry of the operation has completed.
pub(super) enum Step {
    /// Submit the entry for the rest.
    Continue,
    /// The operation is over.
    Finish(End),
}

/// Result of an operation, without its buffers.
pub(super) enum End {
    Connection(OwnedFd, SocketAddr),
    Count(usize),
    Error(io::Error),
}

impl Flight {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            cancelled: false,
            life: 0,
        }
    }

    /// Record the incarnation of the socket's number at the time of submission.
    pub(super) fn in_life(self, life: u32) -> Self {
        Self { life, ..self }
    }

    pub(super) fn life(&self) -> u32 {
        self.life
    }

    /// Socket that the operation works on; `None` for all other operations.
    pub(super) fn socket(&self) -> Option<RawFd> {
        match &self.kind {
            Kind::Receive { socket, .. } | Kind::Send { socket, .. } => Some(*socket),
            _ => None,
        }
    }

    pub(super) fn kind_mut(&mut self) -> &mut Kind {
        &mut self.kind
    }

    pub(super) fn give_up(&mut self) {
        self.cancelled = true;
    }

    pub(super) fn is_task(&self) -> bool {
        matches!(self.kind, Kind::Task)
    }

    /// Build the ring entry for the remaining part of the operation.
    ///
    /// Its pointers stay valid as long as this value is kept: they point into memory on the heap that this value owns
    /// and that this thread does not touch before the entry's completion.
    pub(super) fn entry(&mut self) -> squeue::Entry {
        match &mut self.kind {
            Kind::Accept { listener } => {
                opcode::Accept::new(Fd(*listener), std::ptr::null_mut(), std::ptr::null_mut())
                    .flags(libc::SOCK_CLOEXEC)
                    .build()
            }
            Kind::Receive {
                socket,
                buffer,
                start,
                minimum,
                received,
                quickack,
            } => {
                if *quickack {
                    socket::acknowledge_at_once(*socket);
                }
                // Waiting for all of it inside the kernel saves a turn per piece. Only correct if the operation wants
                // exactly the room in its buffer.
                let flags = if *minimum == buffer.len() - *start {
                    libc::MSG_WAITALL
                } else {
                    0
                };
                let room = &mut buffer[*start + *received..];
                opcode::Recv::new(Fd(*socket), room.as_mut_ptr(), transfer_bytes(room.len()))
                    .flags(flags)
                    .build()
            }
            Kind::Send {
                socket,
                slices,
                progress,
                message,
            } => {
                let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
                let mut pieces = progress.remaining(slices);
                if let (Some(only), None) = (pieces.next(), pieces.next()) {
                    opcode::Send::new(Fd(*socket), only.as_ptr(), transfer_bytes(only.len()))
                        .flags(flags)
                        .build()
                } else {
                    let message = message.get_or_insert_default();
                    let header = message.fill(progress.remaining(slices));
                    let flags = u32::try_from(flags).expect("both are single low bits");
                    opcode::SendMsg::new(Fd(*socket), header)
                        .flags(flags)
                        .build()
                }
            }
            Kind::ReadFile {
                file,
                position,
                buffer,
                start,
                length,
                done,
            } => {
                let room = &mut buffer.as_full_mut()[*start + *done..*start + *length];
                opcode::Read::new(
                    Fd(file.as_raw_fd()),
                    room.as_mut_ptr(),
                    transfer_bytes(room.len()),
                )
                .offset(*position + *done as u64)
                .build()
            }
            Kind::WriteFile {
                file,
                position,
                slices,
                progress,
                vector,
            } => {
                let (pieces, count) = vector.fill(progress.remaining(slices));
                let count = u32::try_from(count).expect("at most 1024 pieces");
                opcode::Writev::new(Fd(file.as_raw_fd()), pieces, count)
                    .offset(*position)
                    .build()
            }
            Kind::SyncFile { file } => opcode::Fsync::new(Fd(file.as_raw_fd()))
                .flags(io_uring::types::FsyncFlags::DATASYNC)
                .build(),
            Kind::Task => opcode::Nop::new().build(),
        }
    }

    /// Handle the completion of a ring entry with `result`: a count, or a negated error.
    pub(super) fn step(&mut self, result: i32) -> Step {
        let step = match usize::try_from(result) {
            Ok(count) => self.progressed(result, count),
            Err(_) => self.failed(Errno::from_raw_os_error(-result)),
        };
        match step {
            Step::Continue if self.cancelled => Step::Finish(End::Error(Errno::CANCELED.into())),
            step => step,
        }
    }

    fn progressed(&mut self, result: i32, count: usize) -> Step {
        match &mut self.kind {
            Kind::Accept { .. } => match socket::admit(socket::adopt(result)) {
                Ok(Some((socket, peer))) => Step::Finish(End::Connection(socket, peer)),
                Ok(None) => Step::Continue,
                Err(error) => Step::Finish(End::Error(error)),
            },
            Kind::Receive {
                minimum, received, ..
            } => {
                *received += count;
                if count == 0 || *received >= *minimum {
                    Step::Finish(End::Count(*received))
                } else {
                    Step::Continue
                }
            }
            Kind::Send {
                slices, progress, ..
            } => written(slices, progress, count),
            Kind::ReadFile { length, done, .. } => {
                *done += count;
                if count == 0 || *done == *length {
                    Step::Finish(End::Count(*done))
                } else {
                    Step::Continue
                }
            }
            Kind::WriteFile {
                slices,
                progress,
                position,
                ..
            } => {
                *position += count as u64;
                written(slices, progress, count)
            }
            Kind::SyncFile { .. } | Kind::Task => Step::Finish(End::Count(0)),
        }
    }

    fn failed(&mut self, error: Errno) -> Step {
        if self.cancelled {
            // The number of its socket may belong to another connection now.
            return Step::Finish(End::Error(error.into()));
        }
        let socket = match &self.kind {
            Kind::Accept { listener } => *listener,
            Kind::Receive { socket, .. } | Kind::Send { socket, .. } => *socket,
            _ if error == Errno::INTR => return Step::Continue,
            _ => return Step::Finish(End::Error(error.into())),
        };
        if error == Errno::INTR {
            return Step::Continue;
        }
        // The ring does not wait for a non-blocking socket. A caller may pass one: make it blocking and retry.
        if error == Errno::AGAIN && socket::set_blocking(socket, true) == Ok(true) {
            return Step::Continue;
        }
        if matches!(self.kind, Kind::Accept { .. }) && socket::is_one_bad_connection(error) {
            return Step::Continue;
        }
        Step::Finish(End::Error(error.into()))
    }

    /// Convert into the operation's outcome; its buffers go back to the submitter.
    pub(super) fn into_outcome(self, end: End) -> Outcome {
        let done = |end| match end {
            End::Error(error) => Err(error),
            End::Count(_) | End::Connection(..) => Ok(()),
        };
        let counted = |end| match end {
            End::Error(error) => Err(error),
            End::Count(count) => Ok(count),
            End::Connection(..) => Ok(0),
        };
        match self.kind {
            Kind::Accept { .. } => Outcome::Accepted(match end {
                End::Connection(socket, peer) => Ok((socket, peer)),
                End::Error(error) => Err(error),
                End::Count(_) => Err(Errno::CANCELED.into()),
            }),
            Kind::Receive { buffer, .. } => Outcome::Received {
                buffer,
                result: counted(end),
            },
            Kind::Send { .. } => Outcome::Sent(done(end)),
            Kind::ReadFile { buffer, .. } => Outcome::FileRead {
                buffer,
                result: counted(end),
            },
            Kind::WriteFile { .. } => Outcome::FileWritten(done(end)),
            Kind::SyncFile { .. } => Outcome::Synced(done(end)),
            Kind::Task => Outcome::Task(Err(Errno::CANCELED.into())),
        }
    }
}

fn written(slices: &[Slice], progress: &mut Progress, count: usize) -> Step {
    progress.advance(slices, count);
    if progress.is_finished(slices) {
        Step::Finish(End::Count(0))
    } else if count == 0 {
        Step::Finish(End::Error(io::ErrorKind::WriteZero.into()))
    } else {
        Step::Continue
    }
}

fn transfer_bytes(length: usize) -> u32 {
    u32::try_from(length.min(TRANSFER_BYTES_MAX)).expect("the limit fits")
}
