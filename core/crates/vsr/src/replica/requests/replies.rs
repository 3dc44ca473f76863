//! Replies to clients and to local proposals.

use headrace_buffer::Slice;

use crate::api::{CommandReply, Outcome, Output};
use crate::clients::Session;
use crate::frame::area::{Eviction, EvictionReason, PongClient, Redirect, RedirectReason, Reply};
use crate::frame::{Area, CommandArea, NO_REPLICA, Operation, PrepareHeader};
use crate::rules::Rules;

use crate::replica::Replica;

/// Time that a client of a busy primary should wait before a retry.
const BUSY_RETRY_MS: u32 = 10;

/// Status of a reply to a request whose number was used for another command.
pub const REQUEST_REUSED: u32 = u32::MAX;

impl<R: Rules> Replica<R> {
    pub(in crate::replica) fn answer_client(
        &mut self,
        client: u128,
        area: impl CommandArea + Into<Area>,
        body: Slice,
    ) {
        let frame = self.frame(area, body);
        self.out.push(Output::Reply { client, frame });
    }

    /// Reply to an executed request. Only the primary replies.
    pub(in crate::replica) fn reply(
        &mut self,
        client: u128,
        session: &Session,
        request_checksum: u128,
    ) {
        if !self.leads() {
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
        self.answer_client(client, area, session.reply.body.clone());
    }

    pub(in crate::replica) fn reply_to_registration(&mut self, header: &PrepareHeader) {
        if let Some(session) = self.clients.get(header.area.client).cloned() {
            self.reply(header.area.client, &session, header.area.request_checksum);
        }
    }

    pub(in crate::replica) fn reply_to_unregistration(&mut self, header: &PrepareHeader) {
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

    pub(in crate::replica) fn reply_reused(
        &mut self,
        client: u128,
        session: &Session,
        checksum: u128,
    ) {
        let session = Session {
            reply: CommandReply {
                status: REQUEST_REUSED,
                body: Slice::default(),
            },
            ..session.clone()
        };
        self.reply(client, &session, checksum);
    }

    /// Replica to which a client should turn: the primary of the view, unless that is this replica and it does not
    /// serve.
    pub(in crate::replica) fn primary_hint(&self) -> u8 {
        if self.is_primary() && (!self.leads() || self.abdicated) {
            NO_REPLICA
        } else {
            self.primary_of(self.view)
        }
    }

    pub(in crate::replica) fn redirect(&mut self, client: u128, request: u64) {
        let area = Redirect {
            client,
            request,
            retry_after_ms: 0,
            primary: self.primary_hint(),
            reason: RedirectReason::NotPrimary,
        };
        self.answer_client(client, area, Slice::default());
    }

    pub(in crate::replica) fn busy(&mut self, client: u128, request: u64) {
        let area = Redirect {
            client,
            request,
            retry_after_ms: BUSY_RETRY_MS,
            primary: self.primary_hint(),
            reason: RedirectReason::Busy,
        };
        self.answer_client(client, area, Slice::default());
    }

    /// Refuse a request for a command that some member may not support yet.
    pub(in crate::replica) fn too_new(&mut self, client: u128, request: u64) {
        let area = Redirect {
            client,
            request,
            retry_after_ms: BUSY_RETRY_MS,
            primary: self.primary_hint(),
            reason: RedirectReason::Release,
        };
        self.answer_client(client, area, Slice::default());
    }

    pub(in crate::replica) fn evict(&mut self, client: u128, session: u64, reason: EvictionReason) {
        let area = Eviction {
            client,
            session,
            reason,
        };
        self.answer_client(client, area, Slice::default());
    }

    pub(in crate::replica) fn pong_client(&mut self, client: u128, ping_monotonic_ns: u64) {
        let area = PongClient {
            client,
            ping_monotonic_ns,
            commit_max: self.commit_max,
            primary: self.primary_hint(),
        };
        self.answer_client(client, area, Slice::default());
    }

    pub(in crate::replica) fn answer_ticket(&mut self, ticket: u64, op: u64, reply: CommandReply) {
        let outcome = Outcome::Committed { op, reply };
        self.out.push(Output::Proposed {
            request_id: ticket,
            outcome,
        });
    }

    /// Redirect a proposal whose operation has another prepare: the proposal will never be executed.
    pub(in crate::replica) fn redirect_proposal(&mut self, ticket: u64) {
        let outcome = Outcome::Redirected {
            primary: self.primary_hint(),
        };
        self.out.push(Output::Proposed {
            request_id: ticket,
            outcome,
        });
    }

    pub(in crate::replica) fn report_unknown_outcome(&mut self, ticket: u64) {
        self.out.push(Output::Proposed {
            request_id: ticket,
            outcome: Outcome::Unknown,
        });
    }
}
