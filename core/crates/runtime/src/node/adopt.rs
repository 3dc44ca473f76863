//! Connections that were not accepted by a shard.

use std::{io, net::SocketAddr, os::fd::OwnedFd};

use headrace_model::{StreamId, TopicId, UserId};
use headrace_proto::control::v1::{CertificateLogin, Request, request::Operation};
use headrace_shard::Arrival;
use headrace_ticket::{Access, Issuer};
use headrace_wire::Transport;
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

    /// Report to the control plane, for its audit trail, that a client was not let in because of its certificate.
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

    /// Whether a ticket that a user has made still opens a topic in this way, as the newest catalogue has the user.
    pub fn issuer_may(&self, issuer: Issuer, topic: (StreamId, TopicId), access: Access) -> bool {
        let catalog = lock(&self.catalog).current();
        headrace_shard::issuer_may(&catalog, issuer, topic, access)
    }

    /// A connection of this process with the node, on which `user` is logged in. Returns the other end of it.
    ///
    /// `caller` is where the user is, and the number of the interface that knows, when one connection is for one caller.
    ///
    /// # Errors
    /// Those of [`Node::adopt`], and those of the kernel when there are no descriptors left.
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
