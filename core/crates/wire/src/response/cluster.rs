//! The nodes of a cluster.

use alloc::vec::Vec;

use super::part::{Part, payload};
use super::{read_counted, write_all};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, NodeRole, NodeStatus};

/// Nodes of a cluster: response to `GetClusterMetadata`. Layout: `Str32 name · u32 nodes_count · Node[nodes_count]`.
///
/// With exactly one node clients keep their connection; with more they look for a healthy leader and reconnect to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterMetadata<'a> {
    /// The cluster's name.
    pub name: &'a str,
    /// Nodes of the cluster, the responding node first.
    pub nodes: Vec<ClusterNode<'a>>,
}

/// One node.
///
/// Layout: `Str32 name · Str32 ip · u16 tcp_port · u16 quic_port · u16 http_port · u16 websocket_port · u8 role ·
/// u8 status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterNode<'a> {
    /// The node's name.
    pub name: &'a str,
    /// IP address of the node; IPv6 without brackets.
    pub ip: &'a str,
    /// Port for TCP.
    pub tcp_port: u16,
    /// Port for QUIC.
    pub quic_port: u16,
    /// Port for HTTP.
    pub http_port: u16,
    /// Port for WebSocket.
    pub websocket_port: u16,
    /// Leader, to which clients should connect, or follower.
    pub role: NodeRole,
    /// State of the node.
    pub status: NodeStatus,
}

payload!(ClusterMetadata<'a>);
payload!(ClusterNode<'a>);

impl<'a> Part<'a> for ClusterMetadata<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let name = reader.str32()?;
        let count = reader.u32()?;
        let nodes = read_counted(reader, count)?;
        Ok(Self { name, nodes })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.str32(self.name);
        out.count(self.nodes.len());
        write_all(&self.nodes, out);
    }
}

impl<'a> Part<'a> for ClusterNode<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            name: reader.str32()?,
            ip: reader.str32()?,
            tcp_port: reader.u16()?,
            quic_port: reader.u16()?,
            http_port: reader.u16()?,
            websocket_port: reader.u16()?,
            role: reader.u8()?.try_into()?,
            status: reader.u8()?.try_into()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.str32(self.name);
        out.str32(self.ip);
        out.u16(self.tcp_port);
        out.u16(self.quic_port);
        out.u16(self.http_port);
        out.u16(self.websocket_port);
        out.u8(self.role.code());
        out.u8(self.status.code());
    }
}
