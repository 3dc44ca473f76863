//! Connections that no shard accepted: opened in this process or handed over by another listener.

use std::{io, net::SocketAddr, os::fd::OwnedFd};

use headrace_model::{StreamId, TopicId, UserId};
use headrace_proto::control::v1::{CertificateLogin, Request, request::Operation};
use headrace_shard::Arrival;
use headrace_ticket::{Access, Issuer};
use headrace_wire::Transport;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{Node, lock};
use crate::host::Message;

/// Socket buffer size of each end of a session: batches, and answers with messages, up to this size are transferred in
/// one piece, so the reader is woken once and not once for every 200 KB. The kernel grants less if `net.core.wmem_max`
/// is smaller.
const SESSION_BUFFER_BYTES: usize = 1024 * 1024;

impl Node {
    /// Serve a connected stream socket as if a shard had accepted it. The socket must be blocking.
    ///
    /// # Errors
    /// `NotConnected`: the node is not running. `WouldBlock`: the mailbox of the chosen shard is full.
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

    /// User with exactly this name, if the user may log in.
    pub fn active_user(&self, username: &str) -> Option<UserId> {
        let catalog = lock(&self.catalog).current();
        catalog
            .user_by_name(username)
            .filter(|user| user.is_active())
            .map(|user| user.id)
    }

    /// Report to the control plane, for its audit trail, that a client was refused because of its certificate.
    pub fn note_refused_certificate(
        &self,
        address: SocketAddr,
        transport: Transport,
        reason: &str,
        suppressed_count: u32,
    ) {
        let refusal = CertificateLogin {
            refusal: reason.to_owned(),
            suppressed_count,
        };
        let request = Request {
            address: address.to_string(),
            transport: transport as u32,
            operation: Some(Operation::CertificateLogin(refusal)),
            ..Request::default()
        };
        self.bridge.push(None, request);
    }

    /// Return whether the newest catalog still grants a ticket's issuer this access to a topic.
    pub fn issuer_may(&self, issuer: Issuer, topic: (StreamId, TopicId), access: Access) -> bool {
        let catalog = lock(&self.catalog).current();
        headrace_shard::issuer_may(&catalog, issuer, topic, access)
    }

    /// Open a connection of this process to the node on which `user` is logged in. Returns the client's end.
    ///
    /// `caller` is the user's address, and the interface's number for the caller if one connection serves one caller.
    ///
    /// # Errors
    /// Those of [`Node::adopt`], and those of the kernel if no descriptors are left.
    pub fn open_session(
        &self,
        user: UserId,
        caller: Option<(SocketAddr, u8)>,
    ) -> io::Result<OwnedFd> {
        let (here, there) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        for end in [&here, &there] {
            rustix::net::sockopt::set_socket_send_buffer_size(end, SESSION_BUFFER_BYTES)?;
        }
        let arrival = Arrival::in_process(user);
        let arrival = caller.map_or(arrival, |(address, interface)| Arrival {
            address,
            interface,
            ..arrival
        });
        self.adopt(there, arrival)?;
        Ok(here)
    }
}
