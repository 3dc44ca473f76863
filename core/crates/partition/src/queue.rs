//! Requests that arrive while a partition opens.

use alloc::collections::VecDeque;

use crate::api::{Outbox, PartitionError, Request, RequestId, respond};

/// Maximum number of requests queued while a partition opens.
const REQUESTS_MAX: usize = 256;
/// Maximum number of bytes in the batches of queued requests.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Queued requests in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct QueuedRequests {
    pub(crate) requests: VecDeque<(RequestId, Request)>,
    bytes: usize,
}

impl QueuedRequests {
    pub(crate) fn push(
        &mut self,
        request_id: RequestId,
        request: Request,
    ) -> Result<(), PartitionError> {
        let bytes = match &request {
            Request::Append { batch } | Request::Stage { batch, .. } => batch.size_bytes(),
            _ => 0,
        };
        if self.requests.len() == REQUESTS_MAX || self.bytes + bytes > BYTES_MAX {
            return Err(PartitionError::Busy);
        }
        self.bytes += bytes;
        self.requests.push_back((request_id, request));
        Ok(())
    }

    pub(crate) fn refuse(self, error: &PartitionError, out: &mut Outbox) {
        for (request_id, _) in self.requests {
            respond(out, request_id, Err(error.clone()));
        }
    }
}
