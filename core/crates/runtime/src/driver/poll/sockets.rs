//! Operations on sockets, and the registrations of sockets with `epoll`.

use std::{
    io,
    net::SocketAddr,
    os::fd::{OwnedFd, RawFd},
};

use headrace_buffer::{Buffer, Slice};
use rustix::{
    event::epoll,
    io::Errno,
    net::{RecvFlags, SocketFlags},
};

use crate::{
    driver::{
        Outcome,
        slots::Key,
        socket::{self, Pushed},
    },
    vectored::Progress,
};

/// An operation on a socket and its progress.
pub(super) enum Exchange {
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
    },
}

/// Result of a non-blocking attempt.
pub(super) enum Attempt {
    Finished(io::Result<Done>),
    /// The socket must become ready first.
    Waits,
}

/// Result of a successful operation.
pub(super) enum Done {
    Connection(OwnedFd, SocketAddr),
    Received(usize),
    Sent,
}

/// The two directions of a socket, which wait independently of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Reading,
    Writing,
}

impl Side {
    pub(super) fn interest(self) -> epoll::EventFlags {
        match self {
            Self::Reading => epoll::EventFlags::IN,
            Self::Writing => epoll::EventFlags::OUT,
        }
    }
}

impl Exchange {
    pub(super) fn socket(&self) -> RawFd {
        match self {
            Self::Accept { listener } => *listener,
            Self::Receive { socket, .. } | Self::Send { socket, .. } => *socket,
        }
    }

    pub(super) fn side(&self) -> Side {
        match self {
            Self::Accept { .. } | Self::Receive { .. } => Side::Reading,
            Self::Send { .. } => Side::Writing,
        }
    }

    /// Return whether to attempt the operation before waiting: a socket usually takes a reply at once, while a receive
    /// usually comes before its data.
    pub(super) fn is_worth_trying_first(&self) -> bool {
        matches!(self, Self::Send { .. })
    }

    /// Acknowledge received data at once, so that the peer sends the rest of a frame, if the operation asks for it.
    pub(super) fn acknowledge(&self) {
        if let Self::Receive {
            socket,
            quickack: true,
            ..
        } = self
        {
            socket::acknowledge_at_once(*socket);
        }
    }

    /// Continue as far as possible without blocking.
    pub(super) fn attempt(&mut self) -> Attempt {
        let attempt = match self {
            Self::Accept { listener } => accept(*listener),
            Self::Receive {
                socket,
                buffer,
                start,
                minimum,
                received,
                ..
            } => receive(*socket, &mut buffer[*start..], *minimum, received),
            Self::Send {
                socket,
                slices,
                progress,
            } => match socket::push(*socket, slices, progress) {
                Ok(Pushed::All) => Attempt::Finished(Ok(Done::Sent)),
                Ok(Pushed::Part) => Attempt::Waits,
                Err(error) => Attempt::Finished(Err(error.into())),
            },
        };
        if matches!(attempt, Attempt::Waits) {
            self.acknowledge();
        }
        attempt
    }

    /// Convert into the operation's outcome; its buffers go back to the submitter.
    pub(super) fn into_outcome(self, result: io::Result<Done>) -> Outcome {
        match self {
            Self::Accept { .. } => Outcome::Accepted(result.and_then(|done| match done {
                Done::Connection(socket, peer) => Ok((socket, peer)),
                Done::Received(_) | Done::Sent => Err(Errno::CANCELED.into()),
            })),
            Self::Receive { buffer, .. } => {
                let result = result.map(|done| match done {
                    Done::Received(count) => count,
                    Done::Connection(..) | Done::Sent => 0,
                });
                Outcome::Received { buffer, result }
            }
            Self::Send { .. } => Outcome::Sent(result.map(drop)),
        }
    }
}

fn accept(listener: RawFd) -> Attempt {
    loop {
        match rustix::net::accept_with(socket::borrow(listener), SocketFlags::CLOEXEC) {
            Ok(accepted) => match socket::admit(accepted) {
                Ok(Some((socket, peer))) => {
                    return Attempt::Finished(Ok(Done::Connection(socket, peer)));
                }
                Ok(None) => {}
                Err(error) => return Attempt::Finished(Err(error)),
            },
            Err(Errno::AGAIN) => return Attempt::Waits,
            Err(error) if socket::is_one_bad_connection(error) => {}
            Err(error) => return Attempt::Finished(Err(error.into())),
        }
    }
}

fn receive(socket: RawFd, room: &mut [u8], minimum: usize, received: &mut usize) -> Attempt {
    let socket = socket::borrow(socket);
    loop {
        match rustix::net::recv(socket, &mut room[*received..], RecvFlags::DONTWAIT) {
            Ok((count, _)) => {
                *received += count;
                if count == 0 || *received >= minimum {
                    return Attempt::Finished(Ok(Done::Received(*received)));
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Attempt::Waits,
            Err(error) => return Attempt::Finished(Err(error.into())),
        }
    }
}

/// All sockets that were ever registered, indexed by descriptor number, which the kernel keeps small.
#[derive(Default)]
pub(super) struct Sockets(Vec<Registration>);

#[derive(Clone)]
struct Registration {
    /// Events registered with the kernel; empty: not registered.
    interest: epoll::EventFlags,
    reading: Option<Key>,
    writing: Option<Key>,
}

impl Registration {
    const NONE: Self = Self {
        interest: epoll::EventFlags::empty(),
        reading: None,
        writing: None,
    };

    fn waiting(&mut self, side: Side) -> &mut Option<Key> {
        match side {
            Side::Reading => &mut self.reading,
            Side::Writing => &mut self.writing,
        }
    }

    fn wanted(&self) -> epoll::EventFlags {
        let mut wanted = epoll::EventFlags::empty();
        wanted.set(Side::Reading.interest(), self.reading.is_some());
        wanted.set(Side::Writing.interest(), self.writing.is_some());
        wanted
    }
}

impl Sockets {
    fn place(&mut self, socket: RawFd) -> &mut Registration {
        let index = usize::try_from(socket).expect("a socket's number is not negative");
        if index >= self.0.len() {
            self.0.resize(index + 1, Registration::NONE);
        }
        &mut self.0[index]
    }

    /// Operation that waits on this side of the socket.
    pub(super) fn waiting(&mut self, socket: RawFd, side: Side) -> Option<Key> {
        *self.place(socket).waiting(side)
    }

    /// Make `key` wait on its side of the socket.
    pub(super) fn wait(
        &mut self,
        epoll: &OwnedFd,
        socket: RawFd,
        side: Side,
        key: Key,
    ) -> Result<(), Errno> {
        let place = self.place(socket);
        *place.waiting(side) = Some(key);
        if place.interest.contains(side.interest()) {
            return Ok(());
        }
        let interest = place.interest | place.wanted();
        register(epoll, socket, place.interest, interest)?;
        place.interest = interest;
        Ok(())
    }

    /// Clear the wait on this side. The registration stays: the next operation likely needs it.
    pub(super) fn finished(&mut self, socket: RawFd, side: Side) {
        *self.place(socket).waiting(side) = None;
    }

    /// Reduce the registration to events that an operation waits for.
    pub(super) fn narrow(&mut self, epoll: &OwnedFd, socket: RawFd) {
        let place = self.place(socket);
        let wanted = place.wanted();
        if wanted.is_empty() {
            self.forget(epoll, socket);
        } else if wanted != place.interest
            && register(epoll, socket, place.interest, wanted).is_ok()
        {
            place.interest = wanted;
        }
    }

    /// Remove the registration: the socket is closed or moves to another driver.
    pub(super) fn forget(&mut self, epoll: &OwnedFd, socket: RawFd) {
        let place = self.place(socket);
        if !place.interest.is_empty() {
            // Fails if the socket is closed, which ended the registration.
            let _ = epoll::delete(epoll, socket::borrow(socket));
        }
        *place = Registration::NONE;
    }

    /// Reset the state of a descriptor number that a new connection has received.
    pub(super) fn renew(&mut self, socket: RawFd) {
        *self.place(socket) = Registration::NONE;
    }
}

fn register(
    epoll: &OwnedFd,
    socket: RawFd,
    registered: epoll::EventFlags,
    interest: epoll::EventFlags,
) -> Result<(), Errno> {
    let name = u64::try_from(socket).expect("a socket's number is not negative");
    let data = epoll::EventData::new_u64(name);
    let socket = socket::borrow(socket);
    if registered.is_empty() {
        epoll::add(epoll, socket, data, interest)
    } else {
        epoll::modify(epoll, socket, data, interest)
    }
}
