//! Socket operations that both drivers use.

use std::{
    io,
    net::SocketAddr,
    os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

use headrace_buffer::Slice;
use rustix::{
    fs::OFlags,
    io::Errno,
    net::{SendAncillaryBuffer, SendFlags, Shutdown, sockopt},
};

use crate::vectored::Progress;

/// Progress of a non-blocking send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pushed {
    /// All bytes are in the socket's buffer.
    All,
    /// The socket's buffer is full.
    Part,
}

/// Borrow a caller's socket for the duration of a system call.
pub(super) fn borrow<'a>(socket: RawFd) -> BorrowedFd<'a> {
    assert!(socket >= 0, "a socket's number is not negative");
    // SAFETY: not -1; the contract of `Driver` keeps a socket open until `CloseSocket` or `release`. If it were closed
    // all the same, system calls would fail with EBADF: no memory depends on it.
    unsafe { BorrowedFd::borrow_raw(socket) }
}

/// Take ownership of a socket.
pub(super) fn adopt(socket: RawFd) -> OwnedFd {
    assert!(socket >= 0, "a socket's number is not negative");
    // SAFETY: only called with a descriptor that the kernel has just returned, or one that its owner gave away by
    // `CloseSocket`.
    unsafe { OwnedFd::from_raw_fd(socket) }
}

/// Make a new connection ready for use. `None`: it died before it could be used.
pub(super) fn admit(socket: OwnedFd) -> io::Result<Option<(OwnedFd, SocketAddr)>> {
    let peer = match rustix::net::getpeername(&socket) {
        Ok(Some(peer)) => SocketAddr::try_from(peer)?,
        Ok(None) | Err(Errno::NOTCONN | Errno::INVAL) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match sockopt::set_tcp_nodelay(&socket, true) {
        Ok(()) => Ok(Some((socket, peer))),
        Err(Errno::NOTCONN | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Return whether an accept failed because of one connection only, so that the next accept may succeed.
pub(super) fn is_one_bad_connection(error: Errno) -> bool {
    matches!(
        error,
        Errno::INTR
            | Errno::CONNABORTED
            | Errno::PROTO
            | Errno::NETDOWN
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
    )
}

/// Set whether operations on the socket block. Returns whether that was a change.
pub(super) fn set_blocking(socket: RawFd, blocking: bool) -> Result<bool, Errno> {
    let socket = borrow(socket);
    let flags = rustix::fs::fcntl_getfl(socket)?;
    let mut wanted = flags;
    wanted.set(OFlags::NONBLOCK, !blocking);
    if wanted == flags {
        return Ok(false);
    }
    rustix::fs::fcntl_setfl(socket, wanted)?;
    Ok(true)
}

/// Acknowledge received data without delay. An optimisation, so failures are ignored.
pub(super) fn acknowledge_at_once(socket: RawFd) {
    let _ = sockopt::set_tcp_quickack(borrow(socket), true);
}

/// Send as much as the socket takes without blocking.
pub(super) fn push(
    socket: RawFd,
    slices: &[Slice],
    progress: &mut Progress,
) -> Result<Pushed, Errno> {
    let socket = borrow(socket);
    while !progress.is_finished(slices) {
        let (bytes, result) = progress.gather(slices, |pieces| {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            rustix::net::sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), flags)
        });
        match result {
            Ok(count) => {
                progress.advance(slices, count);
                // A short count means a full buffer: another call would only return EAGAIN.
                if count < bytes {
                    return Ok(Pushed::Part);
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Pushed::Part),
            Err(error) => return Err(error),
        }
    }
    Ok(Pushed::All)
}

/// Close a socket that its owner gave away. Operations that still wait on it end first.
pub(super) fn close(socket: RawFd) {
    let socket = adopt(socket);
    // Ends receives that a kernel thread has in progress; fails if the peer has closed already.
    let _ = rustix::net::shutdown(&socket, Shutdown::Both);
}
