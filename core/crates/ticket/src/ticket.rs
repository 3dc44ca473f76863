//! Signing and checking.

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use headrace_model::{Namespace, PartitionId, StreamId, TopicId, UserId};

use crate::key::{Key, SIGNATURE_BYTES};
use crate::scope::{Access, Scope};

/// How long a ticket lives unless somebody wants it otherwise.
pub const LIFE_SECONDS: u64 = 30;
/// Bytes of the name of a holder.
pub const HOLDER_BYTES_MAX: usize = 255;

/// Tells the form, so that another can follow it one day.
const PREFIX: &str = "hrt2.";
/// Bytes before the name.
const HEAD_BYTES: usize = 1 + 1 + 4 + 4 + 4 + 8 + 8 + 16 + 4 + 8 + 8;
/// Stands for the user of a ticket that a service has made.
const NO_USER: u32 = u32::MAX;
/// Characters of the longest text that can be a ticket.
const TEXT_BYTES_MAX: usize =
    PREFIX.len() + (HEAD_BYTES + HOLDER_BYTES_MAX + SIGNATURE_BYTES).div_ceil(3) * 4;

const CLUSTER: u8 = 1;
const TOPIC: u8 = 2;
const PARTITION: u8 = 3;

const READ: u8 = 1;
const WRITE: u8 = 2;

/// What a ticket says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Who it was made for, as it is to be read in logs: 1 to 255 bytes.
    pub holder: String,
    /// What it opens.
    pub scope: Scope,
    /// The last second, since the Unix epoch, in which it opens anything.
    pub not_after: u64,
    /// Random: tells it from others in logs.
    pub id: u128,
    /// The user who has made it, and without whose login and rights it opens nothing; `None`: a service has.
    pub issuer: Option<Issuer>,
}

/// The login in whose name a ticket was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issuer {
    /// The user.
    pub user: UserId,
    /// Of the user's passwords, the one at the login; 0: the login does not depend on it.
    pub password_version: u64,
    /// The incarnation of the access token that was shown; 0: none was.
    pub token: u64,
}

/// The name of a holder is empty, or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a ticket's holder has 1 to 255 bytes")]
pub struct InvalidHolder;

/// Why a text opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTicket {
    /// It does not have the form of a ticket.
    #[error("the text is no ticket")]
    Malformed,
    /// It was not signed with the key of this cluster, or was changed.
    #[error("the ticket is not one of this cluster")]
    Forged,
    /// Its time is over.
    #[error("the ticket's time is over")]
    Expired,
}

impl Ticket {
    /// The text to be shown.
    pub fn sign(&self, key: &Key) -> Result<String, InvalidHolder> {
        if self.holder.is_empty() || self.holder.len() > HOLDER_BYTES_MAX {
            return Err(InvalidHolder);
        }
        let mut bytes = Vec::from(PREFIX);
        self.write(&mut bytes);
        let signature = key.sign(&bytes);
        bytes.extend_from_slice(&signature);
        let mut text = String::from(PREFIX);
        URL_SAFE_NO_PAD.encode_string(&bytes[PREFIX.len()..], &mut text);
        Ok(text)
    }

    /// What a text says that was shown at `now`, in seconds since the Unix epoch.
    pub fn verify(text: &str, key: &Key, now: u64) -> Result<Self, InvalidTicket> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(InvalidTicket::Malformed);
        }
        let encoded = text.strip_prefix(PREFIX).ok_or(InvalidTicket::Malformed)?;
        let mut bytes = Vec::from(PREFIX);
        URL_SAFE_NO_PAD
            .decode_vec(encoded, &mut bytes)
            .map_err(|_| InvalidTicket::Malformed)?;
        // Nothing that it says is looked at before the signature.
        let (said, signature) = bytes
            .split_last_chunk::<SIGNATURE_BYTES>()
            .filter(|(said, _)| said.len() > PREFIX.len() + HEAD_BYTES)
            .ok_or(InvalidTicket::Malformed)?;
        if !key.is_right(said, signature) {
            return Err(InvalidTicket::Forged);
        }
        let ticket = Self::read(&said[PREFIX.len()..]).ok_or(InvalidTicket::Malformed)?;
        if now > ticket.not_after {
            return Err(InvalidTicket::Expired);
        }
        Ok(ticket)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (kind, access, ids, incarnation) = match self.scope {
            Scope::Cluster => (CLUSTER, Access::ALL, [0; 3], 0),
            Scope::Topic {
                stream,
                topic,
                incarnation,
                access,
            } => (TOPIC, access, [stream.0, topic.0, 0], incarnation),
            Scope::Partition {
                namespace,
                incarnation,
                access,
            } => {
                let (stream, topic) = (namespace.stream(), namespace.topic());
                let ids = [stream.0, topic.0, namespace.partition().0];
                (PARTITION, access, ids, incarnation)
            }
        };
        let read = if access.read { READ } else { 0 };
        let write = if access.write { WRITE } else { 0 };
        out.extend_from_slice(&[kind, read | write]);
        for id in ids {
            out.extend_from_slice(&id.to_le_bytes());
        }
        out.extend_from_slice(&incarnation.to_le_bytes());
        out.extend_from_slice(&self.not_after.to_le_bytes());
        out.extend_from_slice(&self.id.to_le_bytes());
        let (user, password_version, token) = self.issuer.map_or((NO_USER, 0, 0), |issuer| {
            (issuer.user.0, issuer.password_version, issuer.token)
        });
        out.extend_from_slice(&user.to_le_bytes());
        out.extend_from_slice(&password_version.to_le_bytes());
        out.extend_from_slice(&token.to_le_bytes());
        out.extend_from_slice(self.holder.as_bytes());
    }

    /// `None`: a service of another release has signed something else.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (&[kind, access], rest) = bytes.split_first_chunk()?;
        let (stream, rest) = rest.split_first_chunk()?;
        let (topic, rest) = rest.split_first_chunk()?;
        let (partition, rest) = rest.split_first_chunk()?;
        let (incarnation, rest) = rest.split_first_chunk()?;
        let (not_after, rest) = rest.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let (user, rest) = rest.split_first_chunk()?;
        let (password_version, rest) = rest.split_first_chunk()?;
        let (token, holder) = rest.split_first_chunk()?;
        let stream = StreamId(u32::from_le_bytes(*stream));
        let topic = TopicId(u32::from_le_bytes(*topic));
        let partition = PartitionId(u32::from_le_bytes(*partition));
        let incarnation = u64::from_le_bytes(*incarnation);
        if access & !(READ | WRITE) != 0 {
            return None;
        }
        let access = Access {
            read: access & READ != 0,
            write: access & WRITE != 0,
        };
        let namespace = Namespace::new(stream, topic, partition).ok()?;
        let scope = match kind {
            CLUSTER => Scope::Cluster,
            TOPIC => Scope::Topic {
                stream,
                topic,
                incarnation,
                access,
            },
            PARTITION => Scope::Partition {
                namespace,
                incarnation,
                access,
            },
            _ => return None,
        };
        Some(Self {
            holder: String::from(core::str::from_utf8(holder).ok()?),
            scope,
            not_after: u64::from_le_bytes(*not_after),
            id: u128::from_le_bytes(*id),
            issuer: match u32::from_le_bytes(*user) {
                NO_USER => None,
                user => Some(Issuer {
                    user: UserId(user),
                    password_version: u64::from_le_bytes(*password_version),
                    token: u64::from_le_bytes(*token),
                }),
            },
        })
    }
}
