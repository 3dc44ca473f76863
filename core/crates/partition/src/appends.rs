//! Appends that wait until their messages are as durable as configured.

use alloc::collections::VecDeque;

use headrace_log::{AppendError, Appended};
use headrace_model::Offset;

use crate::api::{Outbox, PartitionError, RequestId, Response, respond};

/// Appends in the order of their offsets.
#[derive(Debug, Default)]
pub(crate) struct Appends {
    waiting: VecDeque<PendingAppend>,
    /// Total size of the messages that became visible since the partition was opened.
    visible_bytes: u64,
}

#[derive(Debug)]
struct PendingAppend {
    /// Request id. None if the request was answered with a lack of space; the batch is stored once there is space.
    request_id: Option<RequestId>,
    bytes: u64,
    appended: Appended,
}

impl Appends {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) const fn visible_bytes(&self) -> u64 {
        self.visible_bytes
    }

    /// Answer an append at once, or when its messages are visible.
    pub(crate) fn acknowledge(
        &mut self,
        request_id: RequestId,
        bytes: usize,
        appended: Result<Appended, AppendError>,
        visible_end: Offset,
        out: &mut Outbox,
    ) {
        let bytes = bytes as u64;
        match appended {
            Ok(appended) if appended.end_offset <= visible_end => {
                self.visible_bytes += bytes;
                respond(out, request_id, Ok(response(appended)));
            }
            Ok(appended) => self.waiting.push_back(PendingAppend {
                request_id: Some(request_id),
                bytes,
                appended,
            }),
            Err(error) => respond(out, request_id, Err(error.into())),
        }
    }

    /// Note messages that no request waits for.
    pub(crate) fn add_staged(&mut self, bytes: u64, appended: Appended, visible_end: Offset) {
        if appended.end_offset <= visible_end {
            self.visible_bytes += bytes;
        } else {
            self.waiting.push_back(PendingAppend {
                request_id: None,
                bytes,
                appended,
            });
        }
    }

    /// Answer the appends whose messages are visible.
    pub(crate) fn settle(&mut self, visible_end: Offset, out: &mut Outbox) {
        while let Some(append) = self.waiting.front()
            && append.appended.end_offset <= visible_end
        {
            if let Some(request_id) = append.request_id {
                respond(out, request_id, Ok(response(append.appended)));
            }
            self.visible_bytes += append.bytes;
            self.waiting.pop_front();
        }
    }

    /// Answer all appends after a purge: they count as fulfilled.
    pub(crate) fn fulfil(&mut self, out: &mut Outbox) {
        for append in self.waiting.drain(..) {
            if let Some(request_id) = append.request_id {
                respond(out, request_id, Ok(response(append.appended)));
            }
        }
    }

    /// Answer all appends with an error. Their messages may still become visible.
    pub(crate) fn fail(&mut self, error: &PartitionError, out: &mut Outbox) {
        for append in &mut self.waiting {
            if let Some(request_id) = append.request_id.take() {
                respond(out, request_id, Err(error.clone()));
            }
        }
    }

    /// Forget messages that will not become visible any more.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }
}

fn response(appended: Appended) -> Response {
    let count = appended.end_offset.0 - appended.base_offset.0;
    Response::Appended {
        base_offset: appended.base_offset,
        messages_count: u32::try_from(count).expect("a batch counts its messages in 32 bits"),
    }
}
