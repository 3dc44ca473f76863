//! Repair of the log: headers and bodies that this replica lacks, and those that other replicas request.

pub(super) mod bodies;
mod body_repair;
mod header_repair;
pub(super) mod headers;
mod repair_service;

use bodies::BodyRepair;
use headers::HeaderRepair;

/// Requests of this replica for what its log lacks.
#[derive(Debug)]
pub(super) struct Repair {
    pub(super) headers: HeaderRepair,
    pub(super) bodies: BodyRepair,
}

impl Repair {
    pub(super) fn new(repair_ms: u32) -> Self {
        Self {
            headers: HeaderRepair::default(),
            bodies: BodyRepair::new(repair_ms),
        }
    }

    pub(super) fn leave_view(&mut self) {
        self.headers.leave_view();
        self.bodies.leave_view();
    }

    /// Return whether this step has made new requests possible.
    pub(super) fn take_request_now(&mut self) -> bool {
        self.bodies.take_request_now() | self.headers.take_soon()
    }
}
