//! Connections.

use alloc::vec::Vec;

use super::part::{Part, payload};
use super::{read_counted, write_all};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, Transport};

/// One connection.
///
/// Layout: `u32 client_id · u32 user_id · u8 transport · Str32 address · u32 groups_count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientHeader<'a> {
    /// Id of the connection.
    pub client_id: u32,
    /// User who is logged in; `None` is 2^32-1 on the wire.
    pub user_id: Option<u32>,
    /// Transport of the connection.
    pub transport: Transport,
    /// `ip:port` of the peer.
    pub address: &'a str,
    /// Number of groups of which the connection is a member.
    pub groups_count: u32,
}

/// One group of which a connection is a member. Layout: `u32 stream_id · u32 topic_id · u32 group_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientGroup {
    /// The stream.
    pub stream_id: u32,
    /// The topic within the stream.
    pub topic_id: u32,
    /// The group within the topic.
    pub group_id: u32,
}

/// One connection with its groups: response to `GetMe` and `GetClient`. `GetClients` lists headers only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientDetails<'a> {
    /// The connection; its `groups_count` is the number of groups that follow.
    pub client: ClientHeader<'a>,
    /// Groups of the connection.
    pub groups: Vec<ClientGroup>,
}

payload!(ClientHeader<'a>);
payload!(ClientDetails<'a>);
payload!(ClientGroup);

impl ClientHeader<'_> {
    /// User id of an unauthenticated connection.
    const ANONYMOUS_USER_ID: u32 = u32::MAX;
}

impl<'a> Part<'a> for ClientHeader<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            client_id: reader.u32()?,
            user_id: Some(reader.u32()?).filter(|&id| id != Self::ANONYMOUS_USER_ID),
            transport: reader.u8()?.try_into()?,
            address: reader.str32()?,
            groups_count: reader.u32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.client_id);
        out.u32(self.user_id.unwrap_or(Self::ANONYMOUS_USER_ID));
        out.u8(self.transport.code());
        out.str32(self.address);
        out.u32(self.groups_count);
    }
}

impl<'a> Part<'a> for ClientGroup {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            stream_id: reader.u32()?,
            topic_id: reader.u32()?,
            group_id: reader.u32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.stream_id);
        out.u32(self.topic_id);
        out.u32(self.group_id);
    }
}

impl<'a> Part<'a> for ClientDetails<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let client = ClientHeader::read(reader)?;
        let groups = read_counted(reader, client.groups_count)?;
        Ok(Self { client, groups })
    }

    /// Writes the number of `groups` as the count, so that the two always agree.
    fn write(&self, out: &mut Writer<'_>) {
        ClientHeader {
            groups_count: out.count_of(&self.groups),
            ..self.client
        }
        .write(out);
        write_all(&self.groups, out);
    }
}
