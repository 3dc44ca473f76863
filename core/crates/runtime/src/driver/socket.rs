//! What both drivers do with a socket by themselves.

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

/// How far a send without waiting came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pushed {
    /// Everything is on its way.
    All,
    /// The socket's buffer is full.
    Part,
}

/// A caller's socket for the length of a system call.
pub(super) fn borrow<'a>(socket: RawFd) -> BorrowedFd<'a> {
    assert!(socket >= 0, "a socket's number is not negative");
    // SAFETY: not -1; the contract of `Driver` keeps a socket open until `CloseSocket` or `release`. Were it
    // closed all the same, system calls would fail with EBADF: no memory depends on it.
    unsafe { BorrowedFd::borrow_raw(socket) }
}

/// Own a socket from now on.
pub(super) fn adopt(socket: RawFd) -> OwnedFd {
    assert!(socket >= 0, "a socket's number is not negative");
    // SAFETY: only called with a descriptor that the kernel just gave us, or one that its owner gave away by
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

/// Whether an accept failed because of one connection: the next one may be fine.
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

/// Set whether operations on the socket wait. Returns whether that was a change.
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

/// Acknowledge what has arrived now and not later. Not essential, so failures are not.
pub(super) fn acknowledge_at_once(socket: RawFd) {
    let _ = sockopt::set_tcp_quickack(borrow(socket), true);
}

/// Send what the socket takes without waiting.
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
                // A short count means a full buffer: asking again would only hear EAGAIN.
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

/// Close a socket that its owner gave away. What still waits on it is told first.
pub(super) fn close(socket: RawFd) {
    let socket = adopt(socket);
    // Ends receives that another thread of the kernel holds; fails when the peer is gone already.
    let _ = rustix::net::shutdown(&socket, Shutdown::Both);
}
