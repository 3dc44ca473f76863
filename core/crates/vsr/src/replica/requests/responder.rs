//! Answers to clients and to proposals of this process.

use headrace_buffer::Slice;

use crate::api::{CommandReply, Outcome, Output};
use crate::clients::Session;
use crate::frame::area::{Eviction, EvictionReason, PongClient, Redirect, RedirectReason, Reply};
use crate::frame::{Area, CommandArea, Operation, PrepareHeader};
use crate::replica::outbox::Outbox;
use crate::replica::view::View;

/// Time that a client of a busy primary should wait before a retry.
const BUSY_RETRY_MS: u32 = 10;

/// Status of a reply to a request whose number was used for another command.
pub const REQUEST_REUSED: u32 = u32::MAX;

/// Answers as this replica may give them now: only a primary replies, the others name it.
#[derive(Debug)]
pub(crate) struct Responder<'a> {
    pub(crate) outbox: &'a mut Outbox,
    leads: bool,
    primary: u8,
    commit_max: u64,
}

impl<'a> Responder<'a> {
    pub(crate) fn new(outbox: &'a mut Outbox, view: &View, commit_max: u64) -> Self {
        Self {
            outbox,
            leads: view.leads(),
            primary: view.primary_hint(),
            commit_max,
        }
    }

    fn answer(&mut self, client: u128, area: impl CommandArea + Into<Area>, body: Slice) {
        let frame = self.outbox.seal(area, body);
        self.outbox.push(Output::Reply { client, frame });
    }

    /// Reply to an executed request.
    pub(crate) fn reply(&mut self, client: u128, session: &Session, request_checksum: u128) {
        if !self.leads {
            return;
        }
        let area = Reply {
            client,
            request_checksum,
            op: session.last_op,
            commit: self.commit_max,
            timestamp_ns: session.last_timestamp_ns,
            request: session.last_request,
            session: session.session,
            base_offset: 0,
            count: 0,
            status: session.reply.status,
            operation: Operation::from_code(session.last_operation).unwrap_or_default(),
        };
        self.answer(client, area, session.reply.body.clone());
    }

    pub(crate) fn reply_to_unregistration(&mut self, header: &PrepareHeader) {
        let session = Session {
            session: header.area.session,
            last_request: header.area.request,
            last_checksum: 0,
            last_op: header.op(),
            last_timestamp_ns: header.area.timestamp_ns,
            last_operation: Operation::UNREGISTER.code(),
            reply: CommandReply::default(),
        };
        self.reply(header.area.client, &session, header.area.request_checksum);
    }

    pub(crate) fn reply_reused(&mut self, client: u128, session: &Session, checksum: u128) {
        let session = Session {
            reply: CommandReply {
                status: REQUEST_REUSED,
                body: Slice::default(),
            },
            ..session.clone()
        };
        self.reply(client, &session, checksum);
    }

    fn refer(&mut self, client: u128, request: u64, retry_after_ms: u32, reason: RedirectReason) {
        let area = Redirect {
            client,
            request,
            retry_after_ms,
            primary: self.primary,
            reason,
        };
        self.answer(client, area, Slice::default());
    }

    pub(crate) fn redirect(&mut self, client: u128, request: u64) {
        self.refer(client, request, 0, RedirectReason::NotPrimary);
    }

    pub(crate) fn busy(&mut self, client: u128, request: u64) {
        self.refer(client, request, BUSY_RETRY_MS, RedirectReason::Busy);
    }

    /// Refuse a request for a command that some member may not support yet.
    pub(crate) fn too_new(&mut self, client: u128, request: u64) {
        self.refer(client, request, BUSY_RETRY_MS, RedirectReason::Release);
    }

    pub(crate) fn evict(&mut self, client: u128, session: u64, reason: EvictionReason) {
        let area = Eviction {
            client,
            session,
            reason,
        };
        self.answer(client, area, Slice::default());
    }

    pub(crate) fn pong(&mut self, client: u128, ping_monotonic_ns: u64) {
        let area = PongClient {
            client,
            ping_monotonic_ns,
            commit_max: self.commit_max,
            primary: self.primary,
        };
        self.answer(client, area, Slice::default());
    }

    /// Answer a proposal that was executed.
    pub(crate) fn committed(&mut self, request_id: u64, op: u64, reply: CommandReply) {
        self.outbox
            .answer_proposal(request_id, Outcome::Committed { op, reply });
    }

    /// Redirect a proposal that will never be executed.
    pub(crate) fn redirect_proposal(&mut self, request_id: u64) {
        let primary = self.primary;
        self.outbox
            .answer_proposal(request_id, Outcome::Redirected { primary });
    }
}
