//! Signing and verification of tickets.

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use headrace_model::{Namespace, PartitionId, StreamId, TopicId, UserId};

use crate::key::{Key, SIGNATURE_BYTES};
use crate::scope::{Access, Scope};

/// Default lifetime of a ticket.
pub const LIFETIME_SECONDS: u64 = 30;
/// Maximum length of a holder's name in bytes.
pub const HOLDER_BYTES_MAX: usize = 255;

/// Format version, which allows for later formats.
const PREFIX: &str = "hrt2.";
/// Number of bytes before the name.
const HEAD_BYTES: usize = 1 + 1 + 4 + 4 + 4 + 8 + 8 + 16 + 4 + 8 + 8;
/// User id of tickets issued by a service.
const NO_USER: u32 = u32::MAX;
/// Maximum length of a ticket's text.
const TEXT_BYTES_MAX: usize =
    PREFIX.len() + (HEAD_BYTES + HOLDER_BYTES_MAX + SIGNATURE_BYTES).div_ceil(3) * 4;

const CLUSTER: u8 = 1;
const TOPIC: u8 = 2;
const PARTITION: u8 = 3;

const READ: u8 = 1;
const WRITE: u8 = 2;

/// Contents of a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Name of the holder for logs: 1 to 255 bytes.
    pub holder: String,
    /// Scope of the ticket.
    pub scope: Scope,
    /// Last second of validity, since the Unix epoch.
    pub not_after: u64,
    /// Random id, which identifies the ticket in logs.
    pub id: u128,
    /// Issuing user: the ticket is valid only while this user's login and rights are. `None` if a service issued the
    /// ticket.
    pub issuer: Option<Issuer>,
}

/// Login on behalf of which a ticket was issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issuer {
    /// The user.
    pub user: UserId,
    /// Version of the user's password at the login; 0 if the login does not depend on it.
    pub password_version: u64,
    /// Incarnation of the access token presented at the login; 0 if there was none.
    pub token: u64,
}

/// The name of a holder is empty, or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a ticket's holder has 1 to 255 bytes")]
pub struct InvalidHolder;

/// Reason why a text is not a valid ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTicket {
    /// The text does not have the format of a ticket.
    #[error("the text is not a ticket")]
    Malformed,
    /// The signature is not one of this cluster, or the text was changed.
    #[error("the ticket belongs to another cluster")]
    Forged,
    /// The ticket has expired.
    #[error("the ticket has expired")]
    Expired,
}

impl Ticket {
    /// Sign the ticket. Returns its text.
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

    /// Verify a text presented at `now`, in seconds since the Unix epoch. Returns the ticket.
    pub fn verify(text: &str, key: &Key, now: u64) -> Result<Self, InvalidTicket> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(InvalidTicket::Malformed);
        }
        let encoded = text.strip_prefix(PREFIX).ok_or(InvalidTicket::Malformed)?;
        let mut bytes = Vec::from(PREFIX);
        URL_SAFE_NO_PAD
            .decode_vec(encoded, &mut bytes)
            .map_err(|_| InvalidTicket::Malformed)?;
        // Verify the signature before interpreting any field.
        let (said, signature) = bytes
            .split_last_chunk::<SIGNATURE_BYTES>()
            .filter(|(said, _)| said.len() > PREFIX.len() + HEAD_BYTES)
            .ok_or(InvalidTicket::Malformed)?;
        if !key.verify(said, signature) {
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

    /// Decode the signed fields. `None` if a service of another release has signed a different format.
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
