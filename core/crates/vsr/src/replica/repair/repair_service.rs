//! Repair service for other replicas: available in any status, but only for intact entries.

use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::Output;
use crate::frame::area::{Headers, NoPrepare, NoPrepareReason, RequestHeaders, RequestPrepare};
use crate::frame::body::headers;
use crate::frame::{Header, PrepareHeader};
use crate::rules::{BodyState, Rules};

use crate::replica::Replica;
use crate::replica::repair::body_repair::Purpose;
use crate::replica::repair::header_repair::SPAN_MAX;

/// Maximum number of prepare bytes in the answer to one request.
const ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of concurrent journal reads for other replicas.
const READS_MAX: usize = 128;

impl<R: Rules> Replica<R> {
    /// Answer with headers of the logical log, from the highest requested one down to the first unknown one.
    pub(in crate::replica) fn on_request_headers(&mut self, header: &Header, area: RequestHeaders) {
        let span = area.op_max.saturating_sub(area.op_min) + 1;
        if area.op_min > area.op_max || span > SPAN_MAX {
            return;
        }
        // Below a verified header the chain proves the headers sent. Above it the requester trusts the primary, and a
        // primary that has restarted or left the view can no longer vouch for them.
        let word = header.view == self.view && self.is_primary() && !self.leads();
        let newest = if word { self.commit_max } else { self.head };
        let list: Vec<PrepareHeader> = (area.op_min..=area.op_max.min(newest))
            .rev()
            .map_while(|op| self.header(op).copied())
            .collect();
        let answer = Headers {
            nonce: area.nonce,
            count: u32::try_from(list.len()).expect("at most SPAN_MAX"),
        };
        let body = Slice::from_vec(headers::encode(&list));
        self.send(header.replica, answer, body);
    }

    pub(in crate::replica) fn on_request_prepare(&mut self, header: &Header, area: RequestPrepare) {
        let peer = header.replica;
        let last = area.op_max.max(area.op);
        let mut bytes = 0;
        for op in area.op..=last {
            let held = self.log.header(op).map(|header| header.checksum);
            let exact = match (op == area.op, area.prepare_checksum) {
                // A request for the committed prepare can be answered only where the commit is known.
                (true, 0) => op <= self.commit_min,
                (true, checksum) => held == Some(checksum),
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
                self.send_frame(peer, frame.any());
            } else if let Some(header) = self.log.header(op).copied() {
                if self.body_repair.loads_for_peers() >= READS_MAX {
                    return;
                }
                bytes += header.size as usize;
                let token = self.token();
                let purpose = Purpose::Serve {
                    peer,
                    nonce: area.nonce,
                };
                self.body_repair.load(token, op, header.checksum, purpose);
                self.out.push(Output::Read {
                    token,
                    op,
                    checksum: header.checksum,
                });
            }
            if bytes >= ANSWER_BYTES {
                return;
            }
        }
    }

    fn refuse_prepare(&mut self, peer: u8, area: RequestPrepare) {
        let reason = if area.op <= self.superblock.durable_checkpoint() {
            NoPrepareReason::Evicted
        } else if area.op <= self.commit_min || self.log.body(area.op) == BodyState::Faulty {
            NoPrepareReason::Faulty
        } else {
            NoPrepareReason::Unknown
        };
        if reason == NoPrepareReason::Faulty && area.op <= self.commit_min {
            // The body is gone here, but the operation was executed: a checkpoint passes its effect to the requester.
            self.checkpointing.demand();
            self.consider_checkpoint();
        }
        self.refuse(peer, area.op, area.prepare_checksum, area.nonce, reason);
    }

    pub(in crate::replica) fn refuse(
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
            log_floor: self.log_floor,
            nonce,
            reason,
        };
        self.send(peer, area, Slice::default());
    }
}
