//! Mapping of request ids to the requests that wait for a partition's answer.

use headrace_link::WhenReady;
use headrace_model::Namespace;
use headrace_partition::RequestId;

use crate::{calls::Origin, tracer::Key};

/// Origin and purpose of a partition's request.
#[derive(Clone, Copy)]
pub(super) enum RequestPurpose {
    /// The answer completes the request.
    Request(Origin),
    /// The answer shows whether a waiting poll can be answered.
    Wait(Origin, WhenReady),
}

impl RequestPurpose {
    /// Return the key of a traced request. Polls of waiting requests are not traced.
    pub(super) fn trace_key(&self) -> Option<Key> {
        let Self::Request(origin) = self else {
            return None;
        };
        let shard = origin.shard;
        origin.trace.map(|request| Key { shard, request })
    }
}

/// Pending requests by request id.
#[derive(Default)]
pub(super) struct Origins {
    slots: Vec<Option<(Namespace, RequestPurpose)>>,
    free: Vec<u32>,
}

impl Origins {
    pub(super) fn insert(&mut self, namespace: Namespace, asked: RequestPurpose) -> RequestId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("requests in flight are bounded far below")
        });
        self.slots[index as usize] = Some((namespace, asked));
        RequestId(u64::from(index))
    }

    pub(super) fn remove(&mut self, request_id: RequestId) -> Option<RequestPurpose> {
        let index = usize::try_from(request_id.0).ok()?;
        let asked = self.slots.get_mut(index)?.take();
        if asked.is_some() {
            self.free
                .push(u32::try_from(index).expect("came from a u32"));
        }
        asked.map(|(_, asked)| asked)
    }

    /// Ids of all requests that a partition has not answered.
    pub(super) fn of(&self, namespace: Namespace) -> impl Iterator<Item = RequestId> {
        let slots = (0_u64..).zip(&self.slots);
        slots.filter_map(move |(index, slot)| {
            let (asked_of, _) = slot.as_ref()?;
            (*asked_of == namespace).then_some(RequestId(index))
        })
    }
}
