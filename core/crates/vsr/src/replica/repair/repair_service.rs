//! Repair service for other replicas: available in any status, but only for intact entries.

use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::frame::area::{Headers, NoPrepare, NoPrepareReason, RequestHeaders, RequestPrepare};
use crate::frame::body::headers;
use crate::frame::{Header, PrepareHeader};
use crate::replica::repair::bodies::Purpose;
use crate::replica::repair::headers::SPAN_MAX;
use crate::rules::{BodyState, Rules};

use crate::replica::Replica;

/// Maximum number of prepare bytes in the answer to one request.
const ANSWER_BYTES: usize = 4 * 1024 * 1024;

impl<R: Rules> Replica<R> {
    /// Answer with headers of the logical log, from the highest requested one down to the first unknown one.
    pub(crate) fn on_request_headers(&mut self, header: &Header, area: RequestHeaders) {
        let span = area.op_max.saturating_sub(area.op_min) + 1;
        if area.op_min > area.op_max || span > SPAN_MAX {
            return;
        }
        // Below a verified header the chain proves the headers sent. Above it the requester trusts the primary, and a
        // primary that has restarted or left the view can no longer vouch for them.
        let view = &self.view;
        let word = header.view == view.number() && view.is_primary() && !view.leads();
        let newest = if word {
            self.log.commit_max()
        } else {
            self.log.head()
        };
        let list: Vec<PrepareHeader> = (area.op_min..=area.op_max.min(newest))
            .rev()
            .map_while(|op| self.log.header(op).copied())
            .collect();
        let answer = Headers {
            nonce: area.nonce,
            count: u32::try_from(list.len()).expect("at most SPAN_MAX"),
        };
        let body = Slice::from_vec(headers::encode(&list));
        self.outbox.send(header.replica, answer, body);
    }

    pub(crate) fn on_request_prepare(&mut self, header: &Header, area: RequestPrepare) {
        let peer = header.replica;
        let last = area.op_max.max(area.op);
        let mut bytes = 0;
        for op in area.op..=last {
            let held = self.log.entry(op).copied();
            let checksum = held.map(|header| header.checksum);
            let exact = match (op == area.op, area.prepare_checksum) {
                // A request for the committed prepare can be answered only where the commit is known.
                (true, 0) => op <= self.log.commit_min(),
                (true, wanted) => checksum == Some(wanted),
                (false, _) => held.is_some(),
            };
            if !exact || !self.log.is_available(op) {
                if op == area.op {
                    self.refuse_prepare(peer, area);
                }
                return;
            }
            if let Some(frame) = self.log.frame(op).cloned() {
                bytes += frame.size_bytes();
                self.outbox.send_frame(peer, frame.any());
            } else if let Some(header) = held {
                let purpose = Purpose::Serve {
                    peer,
                    nonce: area.nonce,
                };
                let bodies = &mut self.repair.bodies;
                if !bodies.load_for_peer(op, header.checksum, purpose, &mut self.outbox) {
                    return;
                }
                bytes += header.size as usize;
            }
            if bytes >= ANSWER_BYTES {
                return;
            }
        }
    }

    fn refuse_prepare(&mut self, peer: u8, area: RequestPrepare) {
        let was_executed = area.op <= self.log.commit_min();
        let reason = if area.op <= self.superblock.durable_checkpoint().op {
            NoPrepareReason::Evicted
        } else if was_executed || self.log.body(area.op) == BodyState::Faulty {
            NoPrepareReason::Faulty
        } else {
            NoPrepareReason::Unknown
        };
        if reason == NoPrepareReason::Faulty && was_executed {
            // The body is gone here, but the operation was executed: a checkpoint passes its effect to the requester.
            self.checkpoints.demand();
            self.consider_checkpoint();
        }
        self.refuse(peer, area.op, area.prepare_checksum, area.nonce, reason);
    }

    pub(crate) fn refuse(
        &mut self,
        peer: u8,
        op: u64,
        prepare_checksum: u128,
        nonce: u64,
        reason: NoPrepareReason,
    ) {
        let area = NoPrepare {
            prepare_checksum,
            op,
            log_floor: self.log.floor(),
            nonce,
            reason,
        };
        self.outbox.send(peer, area, Slice::default());
    }
}
