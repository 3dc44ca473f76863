//! One interface to sockets, files and blocking work, and two implementations of it.
//!
//! A shard's thread owns one driver. It submits operations, each under a token of its own choice, and collects
//! completions in [`Driver::poll`]; nothing else in the process waits. Every operation owns what the kernel
//! may touch (buffers, slices, file handles) until its completion, so that dropping a connection can never
//! free memory that the kernel still writes to.
//!
//! [`Selection`] decides once per process between the ring (`io_uring`) and its fallback (`epoll` with worker
//! threads), and says why.

mod poll;
mod selection;
mod slots;
mod socket;
mod uring;
mod waker;
mod workers;

use std::{
    any::Any,
    fmt, io,
    net::SocketAddr,
    os::fd::{OwnedFd, RawFd},
    sync::Arc,
    time::Duration,
};

use headrace_buffer::{Buffer, Slice};

pub use selection::{DriverChoice, DriverUnavailable, Fallback, Selection, UnknownDriver};
pub use waker::Waker;
pub use workers::Workers;

/// Submits operations and reports their completions: one per shard thread.
///
/// # Sockets
///
/// A socket belongs to one driver at a time, from `Accept` (or the first operation on it) until
/// [`Operation::CloseSocket`] or [`Driver::release`]. At most one `Receive` (or `Accept`) and one `Send` may be
/// in flight per socket. A socket is closed only through the driver: closing it behind the driver's back lets
/// its number come back as another connection while an operation still refers to it.
///
/// # Completions
///
/// Every operation completes exactly once, in no promised order. Tokens must be unique among the operations in
/// flight; completions carry them back, and they may be used again afterwards.
pub trait Driver {
    /// Start `operation`. Never blocks; whatever goes wrong is reported by its completion.
    fn submit(&mut self, token: u64, operation: Operation);

    /// Hand everything submitted to the kernel, wait for the first completion, a wake-up or the end of
    /// `timeout` (`None`: no end), and append what completed to `out`.
    ///
    /// Returns at once when completions are at hand already. Enters the kernel at most once. `Ok` with
    /// nothing appended is a wake-up, the end of the timeout, or a signal.
    ///
    /// # Errors
    ///
    /// Only what makes the driver unusable; failures of operations are in their completions.
    fn poll(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()>;

    /// A handle that ends [`poll`](Self::poll) from any thread.
    fn waker(&self) -> Waker;

    /// Try to end the operation under `token` early. Its completion still comes, exactly once: with
    /// `ECANCELED`, or with what it had already achieved. Unknown tokens are ignored.
    ///
    /// Looks at every operation in flight, so it is meant for the rare case: a connection given up, a
    /// shutdown.
    fn cancel(&mut self, token: u64);

    /// The socket leaves this driver without being closed: it moves to another shard. Every operation on it must
    /// have completed.
    fn release(&mut self, socket: RawFd);

    /// `uring` or `poll`, as in settings and metrics.
    fn name(&self) -> &'static str;

    /// What this driver did since it was opened.
    fn counters(&self) -> DriverCounters;
}

/// Work for a [`Driver`].
pub enum Operation {
    /// Wait for one connection. The new socket is close-on-exec, blocking and has `TCP_NODELAY` set.
    ///
    /// Connections that died while they waited are skipped. `EMFILE`, `ENFILE` and `ENOBUFS` are reported,
    /// and would be again at once: the caller must pause before it accepts again.
    Accept {
        /// A listening TCP socket, open until the completion. The driver sets its blocking mode as it needs it.
        listener: RawFd,
    },
    /// Receive into `buffer[start..buffer.len()]` until at least `minimum` bytes more are there.
    ///
    /// The length of the buffer is left alone. When `minimum` is the whole room, nothing behind it is read
    /// from the socket, so a large payload can be received exactly.
    Receive {
        /// A connected socket.
        socket: RawFd,
        /// Comes back with the completion, whatever happened.
        buffer: Buffer,
        /// Where to begin; below the buffer's length.
        start: usize,
        /// Bytes to wait for, 1 to the room there is. Fewer come only at the end of the stream.
        minimum: usize,
        /// Re-arm `TCP_QUICKACK` before waiting.
        ///
        /// For a receive that starts inside a frame: a peer that writes a short header as a segment of its
        /// own and keeps Nagle's algorithm on sends the rest only when the header is acknowledged, which a
        /// delayed acknowledgement puts off by about 40 ms. The option wears off, so it is set each time.
        quickack: bool,
    },
    /// Send all slices in order.
    ///
    /// After an error or a cancellation an unknown part was sent: the connection is good for nothing but
    /// closing.
    Send {
        /// A connected socket.
        socket: RawFd,
        /// Any number; empty ones are skipped.
        slices: Vec<Slice>,
    },
    /// End both directions, then close. Operations in flight on the socket complete first or fail.
    CloseSocket {
        /// An open socket; its number is free afterwards.
        socket: RawFd,
    },
    /// Read into `buffer[start..start + length]`; fewer bytes come only at the end of the file.
    ReadFile {
        /// Kept open until the completion.
        file: Arc<OwnedFd>,
        /// Byte offset in the file.
        position: u64,
        /// Comes back with the completion, whatever happened.
        buffer: Buffer,
        /// Where to begin in the buffer.
        start: usize,
        /// Bytes; `start + length` is within the buffer's capacity.
        length: usize,
    },
    /// Write all slices in order, off this thread: for writes that would block it.
    WriteFile {
        /// Kept open until the completion.
        file: Arc<OwnedFd>,
        /// Byte offset in the file.
        position: u64,
        /// Any number; empty ones are skipped.
        slices: Vec<Slice>,
    },
    /// Sync the file's data, and the metadata needed to read it, to the device (`fdatasync`).
    SyncFile {
        /// Kept open until the completion.
        file: Arc<OwnedFd>,
    },
    /// Run blocking work on a worker thread. A panic in it becomes an error.
    Task(Task),
}

/// Blocking work of [`Operation::Task`].
pub type Task = Box<dyn FnOnce() -> io::Result<TaskOutput> + Send>;

/// What a task brings back: any value, to be taken out as the type that its submitter knows.
pub struct TaskOutput(Box<dyn Any + Send>);

/// The end of an operation.
#[derive(Debug)]
pub struct Completion {
    /// The token given to [`Driver::submit`].
    pub token: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// How an operation ended: one variant per [`Operation`].
#[derive(Debug)]
pub enum Outcome {
    /// The connection and its peer.
    Accepted(io::Result<(OwnedFd, SocketAddr)>),
    /// Bytes received, all pieces together.
    Received {
        /// The operation's buffer.
        buffer: Buffer,
        /// Fewer than the minimum, 0 included: the peer closed its side. An error takes the place of what
        /// had arrived before it.
        result: io::Result<usize>,
    },
    /// Everything was sent, or not.
    Sent(io::Result<()>),
    /// The socket is closed.
    Closed,
    /// Bytes read.
    FileRead {
        /// The operation's buffer.
        buffer: Buffer,
        /// Fewer than asked for: the file ends there.
        result: io::Result<usize>,
    },
    /// Everything was written, or not.
    FileWritten(io::Result<()>),
    /// The file was synced, or not; a failed sync says nothing about what is on the device.
    Synced(io::Result<()>),
    /// What the task returned.
    Task(io::Result<TaskOutput>),
}

/// Counts since the driver was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DriverCounters {
    /// System calls that submit or wait.
    pub enters: u64,
    /// Operations submitted.
    pub operations: u64,
    /// Sends that were finished by one system call on the calling thread.
    pub inline_sends: u64,
    /// Times that the kernel's completion queue was too small.
    pub overflows: u64,
}

impl TaskOutput {
    /// Wrap a value.
    pub fn new<T: Any + Send>(value: T) -> Self {
        Self(Box::new(value))
    }

    /// For work done for its effect.
    pub fn nothing() -> Self {
        Self::new(())
    }

    /// Take the value out.
    ///
    /// # Panics
    ///
    /// The task returned another type: task and consumer do not belong together.
    pub fn take<T: Any>(self) -> T {
        *self
            .0
            .downcast()
            .expect("the task's submitter knows the type it returns")
    }
}

impl fmt::Debug for TaskOutput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TaskOutput")
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Accept { .. } => "Accept",
            Self::Receive { .. } => "Receive",
            Self::Send { .. } => "Send",
            Self::CloseSocket { .. } => "CloseSocket",
            Self::ReadFile { .. } => "ReadFile",
            Self::WriteFile { .. } => "WriteFile",
            Self::SyncFile { .. } => "SyncFile",
            Self::Task(_) => "Task",
        })
    }
}
