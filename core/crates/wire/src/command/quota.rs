//! Requests that replace a quota.

use super::Payload;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Quota, Status};

/// Replace the quota of a user. Layout: `Ident user · Quota`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetUserQuota<'a> {
    /// The user.
    pub user: Identifier<'a>,
    /// The whole quota; one without limits removes it.
    pub quota: Quota,
}

/// Replace the quota of a topic. Layout: `Ident stream · Ident topic · Quota`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetTopicQuota<'a> {
    /// Stream of the topic.
    pub stream: Identifier<'a>,
    /// The topic.
    pub topic: Identifier<'a>,
    /// The whole quota; one without limits removes it.
    pub quota: Quota,
}

impl<'a> Payload<'a> for SetUserQuota<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            user: reader.identifier()?,
            quota: Quota::read(reader)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.user);
        self.quota.write(out);
    }
}

impl<'a> Payload<'a> for SetTopicQuota<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            topic: reader.identifier()?,
            quota: Quota::read(reader)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.identifier(self.topic);
        self.quota.write(out);
    }
}
