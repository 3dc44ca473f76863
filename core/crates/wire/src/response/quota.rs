//! Quotas of users and topics.

use super::part::{Part, payload};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, Quota};

/// One quota in a listing. Layout: `u8 1 · u32 user_id · Name username · Quota` for a user, and
/// `u8 2 · u32 stream_id · u32 topic_id · Name stream · Name topic · Quota` for a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaRecord<'a> {
    /// User or topic that has the quota.
    pub subject: QuotaSubject<'a>,
    /// The limits.
    pub quota: Quota,
}

/// User or topic that has a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaSubject<'a> {
    /// A user, whose connections share the quota.
    User {
        /// The user's id.
        id: u32,
        /// The user's name.
        name: &'a str,
    },
    /// A topic, whose users share the quota.
    Topic {
        /// Id of the stream.
        stream_id: u32,
        /// Id of the topic within the stream.
        topic_id: u32,
        /// Name of the stream.
        stream: &'a str,
        /// Name of the topic.
        topic: &'a str,
    },
}

payload!(Quota);
payload!(QuotaRecord<'a>);

impl<'a> Part<'a> for Quota {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Self::read(reader)
    }

    fn write(&self, out: &mut Writer<'_>) {
        (*self).write(out);
    }
}

const USER: u8 = 1;
const TOPIC: u8 = 2;

impl<'a> Part<'a> for QuotaRecord<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let subject = match reader.u8()? {
            USER => QuotaSubject::User {
                id: reader.u32()?,
                name: reader.name()?,
            },
            TOPIC => QuotaSubject::Topic {
                stream_id: reader.u32()?,
                topic_id: reader.u32()?,
                stream: reader.name()?,
                topic: reader.name()?,
            },
            code => return Err(Malformed::UnknownCode(code)),
        };
        let quota = Quota::read(reader)?;
        Ok(Self { subject, quota })
    }

    fn write(&self, out: &mut Writer<'_>) {
        match self.subject {
            QuotaSubject::User { id, name } => {
                out.u8(USER);
                out.u32(id);
                out.name(name);
            }
            QuotaSubject::Topic {
                stream_id,
                topic_id,
                stream,
                topic,
            } => {
                out.u8(TOPIC);
                out.u32(stream_id);
                out.u32(topic_id);
                out.name(stream);
                out.name(topic);
            }
        }
        self.quota.write(out);
    }
}
