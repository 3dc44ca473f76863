//! Connection whose request is being handled.

use headrace_model::ShardId;

use super::{Pipeline, Session};
use crate::calls::{ConnectionKey, Origin};

/// Parts of a connection that the handling of its request needs, while its bytes are borrowed from its inbox.
pub(crate) struct Requester<'a> {
    /// Shard of the connection.
    pub(crate) shard: ShardId,
    pub(crate) key: ConnectionKey,
    pub(crate) session: &'a mut Session,
    pub(crate) pipeline: &'a mut Pipeline,
}

impl Requester<'_> {
    /// Begin a request that is answered later and that excludes others of the connection.
    pub(crate) fn begin_alone(&mut self) -> Origin {
        Origin {
            shard: self.shard,
            connection: self.key,
            sequence: self.pipeline.begin_alone(),
            member: None,
            trace: self.pipeline.traced_last(),
        }
    }

    /// Begin an append of this size, which other appends of the connection may follow before its answer.
    pub(crate) fn begin_append(&mut self, bytes: usize) -> Origin {
        Origin {
            shard: self.shard,
            connection: self.key,
            sequence: self.pipeline.begin_append(bytes),
            member: None,
            trace: self.pipeline.traced_last(),
        }
    }
}
