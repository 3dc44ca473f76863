//! One interface to sockets, files and blocking work, with two implementations.
//!
//! A shard's thread owns one driver. It submits operations, each under a token of its own choice, and collects
//! completions in [`Driver::poll`]; the shard's thread waits nowhere else. Every operation owns the memory that the
//! kernel may touch (buffers, slices, file handles) until its completion, so that dropping a connection can never free
//! memory that the kernel still writes to.
//!
//! [`Selection`] decides once per process between the ring (`io_uring`) and its fallback (`epoll` with worker threads),
//! and gives the reason.

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
    /// Start `operation`. Never blocks; all errors are reported by its completion.
    fn submit(&mut self, token: u64, operation: Operation);

    /// Hand everything submitted to the kernel, wait for the first completion, a wake-up or the end of `timeout`
    /// (`None`: no end), and append all completions to `out`.
    ///
    /// Returns at once if completions are at hand already. Enters the kernel at most once. `Ok` with nothing appended
    /// means a wake-up, the end of the timeout, or a signal.
    ///
    /// # Errors
    ///
    /// Only errors that make the driver unusable; failures of operations are in their completions.
    fn poll(&mut self, timeout: Option<Duration>, out: &mut Vec<Completion>) -> io::Result<()>;

    /// A handle that ends [`poll`](Self::poll) from any thread.
    fn waker(&self) -> Waker;

    /// Try to end the operation under `token` early. Its completion still comes, exactly once: with `ECANCELED`, or
    /// with the result it had already achieved. Unknown tokens are ignored.
    ///
    /// Scans all operations in flight, so it is intended for rare cases: an abandoned connection, a shutdown.
    fn cancel(&mut self, token: u64);

    /// Remove a socket from this driver without closing it, to move it to another shard. Every operation on it must
    /// have completed.
    fn release(&mut self, socket: RawFd);

    /// Name in settings and metrics: `uring` or `poll`.
    fn name(&self) -> &'static str;

    /// Counters of this driver since it was opened.
    fn counters(&self) -> DriverCounters;
}

/// Work for a [`Driver`].
pub enum Operation {
    /// Wait for one connection. The new socket is close-on-exec, blocking and has `TCP_NODELAY` set.
    ///
    /// Connections that died while they waited are skipped. `EMFILE`, `ENFILE` and `ENOBUFS` are reported, and would
    /// occur again at once: the caller must pause before it accepts again.
    Accept {
        /// A listening TCP socket, open until the completion. The driver sets its blocking mode as needed.
        listener: RawFd,
    },
    /// Receive into `buffer[start..buffer.len()]` until at least `minimum` more bytes have arrived.
    ///
    /// The length of the buffer is not changed. If `minimum` is the whole room, no byte beyond it is read from the
    /// socket, so a large payload can be received exactly.
    Receive {
        /// A connected socket.
        socket: RawFd,
        /// Returned with the completion, also after an error.
        buffer: Buffer,
        /// Index of the first byte to fill; below the buffer's length.
        start: usize,
        /// Bytes to wait for, from 1 to the room in the buffer. Fewer arrive only at the end of the stream.
        minimum: usize,
        /// Re-arm `TCP_QUICKACK` before waiting.
        ///
        /// For a receive that starts inside a frame: a peer that writes a short header as a segment of its own and
        /// keeps Nagle's algorithm on sends the rest only when the header is acknowledged, which a delayed
        /// acknowledgement puts off by about 40 ms. The kernel clears the option by itself, so it is set each time.
        quickack: bool,
    },
    /// Send all slices in order.
    ///
    /// After an error or a cancellation an unknown part was sent: the connection can only be closed.
    Send {
        /// A connected socket.
        socket: RawFd,
        /// Slices to send; empty ones are skipped.
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
        /// Returned with the completion, also after an error.
        buffer: Buffer,
        /// Index of the first byte to fill.
        start: usize,
        /// Number of bytes; `start + length` is within the buffer's capacity.
        length: usize,
    },
    /// Write all slices in order on a worker thread: for writes that would block this one.
    WriteFile {
        /// Kept open until the completion.
        file: Arc<OwnedFd>,
        /// Byte offset in the file.
        position: u64,
        /// Slices to write; empty ones are skipped.
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

/// Result of a task: any value, to be taken out as the type that its submitter knows.
pub struct TaskOutput(Box<dyn Any + Send>);

/// The completion of an operation.
#[derive(Debug)]
pub struct Completion {
    /// Token given to [`Driver::submit`].
    pub token: u64,
    /// Outcome of the operation.
    pub outcome: Outcome,
}

/// Outcome of an operation: one variant per [`Operation`].
#[derive(Debug)]
pub enum Outcome {
    /// The connection and its peer.
    Accepted(io::Result<(OwnedFd, SocketAddr)>),
    /// Bytes received, all pieces together.
    Received {
        /// The operation's buffer.
        buffer: Buffer,
        /// Number of bytes. Fewer than the minimum, 0 included: the peer closed its side. An error hides the bytes that
        /// had arrived before it.
        result: io::Result<usize>,
    },
    /// Success: everything was sent.
    Sent(io::Result<()>),
    /// The socket is closed.
    Closed,
    /// Bytes read.
    FileRead {
        /// The operation's buffer.
        buffer: Buffer,
        /// Number of bytes. Fewer than requested: the end of the file.
        result: io::Result<usize>,
    },
    /// Success: everything was written.
    FileWritten(io::Result<()>),
    /// Success: the file was synced. After a failed sync the state on the device is unknown.
    Synced(io::Result<()>),
    /// Result of the task.
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
    /// Number of overflows of the kernel's completion queue.
    pub overflows: u64,
}

impl TaskOutput {
    /// Wrap a value.
    pub fn new<T: Any + Send>(value: T) -> Self {
        Self(Box::new(value))
    }

    /// Result of a task that returns no value.
    pub fn nothing() -> Self {
        Self::new(())
    }

    /// Take the value out.
    ///
    /// # Panics
    ///
    /// The task returned another type: task and consumer do not match.
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
