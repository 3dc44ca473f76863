//! The one bridge between shard threads and the control plane.
//!
//! Shards push requests, the control plane's event loop is woken through an eventfd and takes them in batches;
//! replies go to the mailbox of the shard that asked. One wake-up serves everything that waits.

use std::{
    collections::BTreeMap,
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::{Mutex, MutexGuard, PoisonError},
};

use headrace_proto::control::v1 as control;
use headrace_shard::Origin;
use headrace_wakeup::Wakeup;

/// A request that waits for the control plane.
#[derive(Debug)]
pub struct ControlRequest {
    /// Identifier that the reply carries.
    pub id: u64,
    /// The request itself.
    pub request: control::Request,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    arrived: Vec<ControlRequest>,
    /// Origins of requests that were not answered yet, whether the control plane has taken them or not. Bounded by the
    /// number of connections: each has at most one control request in flight.
    unanswered: BTreeMap<u64, Origin>,
}

/// Requests on their way to the control plane, and the origins that receive the replies.
#[derive(Debug)]
pub struct ControlBridge {
    state: Mutex<State>,
    wakeup: Wakeup,
}

impl ControlBridge {
    /// Create an empty bridge.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            state: Mutex::default(),
            wakeup: Wakeup::new()?,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Not on the data path: control requests are rare, and the lock is held for a push or a take.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Descriptor that is readable while requests wait.
    pub fn descriptor(&self) -> RawFd {
        self.wakeup.as_fd().as_raw_fd()
    }

    /// Queue a request. Without an `origin` the reply is discarded.
    pub(crate) fn push(&self, origin: Option<Origin>, request: control::Request) {
        {
            let mut state = self.state();
            state.last_id += 1;
            let id = state.last_id;
            if let Some(origin) = origin {
                state.unanswered.insert(id, origin);
            }
            state.arrived.push(ControlRequest { id, request });
        }
        self.wakeup.wake();
    }

    /// Take all requests that arrived since the last call.
    pub fn take(&self) -> Vec<ControlRequest> {
        self.wakeup
            .take(|| core::mem::take(&mut self.state().arrived))
    }

    /// Take the origin that receives the reply to `id`; `None` if it was answered before.
    pub(crate) fn answered(&self, id: u64) -> Option<Origin> {
        self.state().unanswered.remove(&id)
    }
}
