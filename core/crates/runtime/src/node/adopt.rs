//! Connections that were not accepted by a shard.

use std::{io, os::fd::OwnedFd};

use headrace_model::UserId;
use headrace_shard::Arrival;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{Node, lock};
use crate::host::Message;

/// Of each end of a session: so much of a batch, or of an answer with messages, goes through in one piece. Whoever reads
/// is woken once for it, and not once for every 200 KB. The kernel gives less where `net.core.wmem_max` says so.
const SESSION_BUFFER_BYTES: usize = 1024 * 1024;

impl Node {
    /// Serve a connected stream socket, as if a shard had accepted it. It has to be blocking.
    ///
    /// # Errors
    /// `NotConnected`: the node does not run (any more). `WouldBlock`: the shard whose turn it is has its hands full.
    pub fn adopt(&self, socket: OwnedFd, arrival: Arrival) -> io::Result<()> {
        let mut running = lock(&self.running);
        let count = running.shards.len();
        if count == 0 {
            return Err(io::Error::new(
                io::ErrorKind::NotConnected,
                "the node does not run",
            ));
        }
        running.next_shard = (running.next_shard + 1) % count;
        running.shards[running.next_shard]
            .sender
            .try_send(Message::Connection { socket, arrival })
            .map_err(|_refused| io::Error::new(io::ErrorKind::WouldBlock, "the shard is busy"))
    }

    /// The user of exactly this name, if it may log in.
    pub fn active_user(&self, username: &str) -> Option<UserId> {
        let catalog = lock(&self.catalog).current();
        catalog
            .user_by_name(username)
            .filter(|user| user.is_active())
            .map(|user| user.id)
    }

    /// A connection of this process with the node, on which `user` is logged in. Returns the other end of it.
    ///
    /// # Errors
    /// Those of [`Node::adopt`], and those of the kernel when there are no descriptors left.
    pub fn open_session(&self, user: UserId) -> io::Result<OwnedFd> {
        let (here, there) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        for end in [&here, &there] {
            rustix::net::sockopt::set_socket_send_buffer_size(end, SESSION_BUFFER_BYTES)?;
        }
        self.adopt(there, Arrival::in_process(user))?;
        Ok(here)
    }
}
