//! Execution of one operation: filter its new commands, process their results.

use alloc::vec::Vec;

use crate::api::{ApplyOperation, Command, CommandReply, FatalReason, Notice, Output};
use crate::clients::{Session, Verdict};
use crate::frame::body::multi::{self, SubRequest};
use crate::frame::{Operation, PrepareFlags, PrepareFrame, PrepareHeader, checksum_body};
use crate::rules::Rules;

use crate::replica::{Flow, Replica};

/// Operation that the state machine is executing.
#[derive(Debug)]
pub(in crate::replica) struct Executing {
    header: PrepareHeader,
    bytes: u64,
    parts: Vec<Part>,
}

/// One request of the operation.
#[derive(Debug)]
struct Part {
    client: u128,
    session: u64,
    request: u64,
    checksum: u128,
    ticket: u64,
    /// True if the command was passed to the state machine.
    fresh: bool,
}

impl Executing {
    pub(in crate::replica) fn op(&self) -> u64 {
        self.header.op()
    }

    pub(in crate::replica) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<R: Rules> Replica<R> {
    pub(in crate::replica) fn execute(&mut self, frame: &PrepareFrame) -> Flow {
        let header = frame.header;
        let op = header.op();
        let requests = requests_of(frame)?;
        let tickets = self.admission.take_tickets(op, header.checksum);
        let mut parts: Vec<Part> = Vec::with_capacity(requests.len());
        let mut commands = Vec::new();
        for (index, request) in requests.into_iter().enumerate() {
            let checksum = checksum_body(&request.body);
            let ticket = tickets.tickets.get(index).copied().unwrap_or(0);
            // Repeat of the admission check: a request may have been admitted twice around a view change.
            let fresh = request.client == 0
                || (!parts.iter().any(|part| part.client == request.client)
                    && matches!(
                        self.clients.check(
                            &self.rules,
                            request.client,
                            request.session,
                            request.request,
                            checksum,
                        ),
                        Verdict::Fresh
                    ));
            if fresh {
                commands.push(Command {
                    client: request.client,
                    session: request.session,
                    request: request.request,
                    request_id: ticket,
                    body: request.body,
                });
            }
            parts.push(Part {
                client: request.client,
                session: request.session,
                request: request.request,
                checksum,
                ticket,
                fresh,
            });
        }
        self.executing = Some(Executing {
            header,
            bytes: frame.body.len() as u64,
            parts,
        });
        for ticket in tickets.lost {
            self.redirect_proposal(ticket);
        }
        self.out.push(Output::Apply(ApplyOperation {
            op,
            checksum: header.checksum,
            timestamp_ns: header.area.timestamp_ns,
            operation: header.area.operation,
            release: header.release_in_force(),
            user_id: header.area.user_id,
            commands,
        }));
        Ok(())
    }

    pub(in crate::replica) fn on_applied(&mut self, op: u64, replies: Vec<CommandReply>) -> Flow {
        let Some(executing) = self.executing.take() else {
            return Err(FatalReason::Invariant("an operation is executed once"));
        };
        let expected = executing.parts.iter().filter(|part| part.fresh).count();
        if executing.op() != op || replies.len() != expected {
            return Err(FatalReason::Invariant("each command has one answer"));
        }
        let header = executing.header;
        self.note_bytes(executing.bytes());
        self.execute_session_operation(&header);
        self.notice_release(&header);
        let mut replies = replies.into_iter();
        for part in &executing.parts {
            let request_checksum = self
                .admission
                .complete(part.client, part.request)
                .unwrap_or(header.area.request_checksum);
            if part.fresh {
                let reply = replies.next().unwrap_or_default();
                self.record(&header, part, reply, request_checksum);
            } else {
                self.notice(Notice::DuplicateRequest);
                self.repeat_reply(part, request_checksum);
            }
        }
        self.executed(op)
    }

    fn execute_session_operation(&mut self, header: &PrepareHeader) {
        let area = header.area;
        if !is_for_state_machine(area.operation) {
            self.admission.complete(area.client, area.request);
        }
        if area.operation == Operation::REGISTER {
            self.clients.register(
                area.client,
                area.op,
                area.timestamp_ns,
                area.operation.code(),
                self.config.clients_max,
            );
            self.reply_to_registration(header);
        } else if area.operation == Operation::UNREGISTER {
            self.clients.unregister(area.client, area.session);
            self.reply_to_unregistration(header);
        }
    }

    fn record(
        &mut self,
        header: &PrepareHeader,
        part: &Part,
        reply: CommandReply,
        request_checksum: u128,
    ) {
        if part.ticket != 0 {
            self.answer_ticket(part.ticket, header.op(), reply.clone());
        }
        if part.client == 0 {
            return;
        }
        let session = Session {
            session: part.session,
            last_request: part.request,
            last_checksum: part.checksum,
            last_op: header.op(),
            last_timestamp_ns: header.area.timestamp_ns,
            last_operation: header.area.operation.code(),
            reply,
        };
        self.reply(part.client, &session, request_checksum);
        self.clients.record(part.client, session);
    }

    fn repeat_reply(&mut self, part: &Part, request_checksum: u128) {
        let verdict = self.clients.check(
            &self.rules,
            part.client,
            part.session,
            part.request,
            part.checksum,
        );
        if let Verdict::Repeated(session) = verdict {
            let session = session.clone();
            self.reply(part.client, &session, request_checksum);
        }
    }
}

/// Return whether the state machine executes this operation; the protocol's own operations change only the log and the
/// sessions.
pub(in crate::replica) fn is_for_state_machine(operation: Operation) -> bool {
    operation == Operation::ADVANCE_TIME || operation.is_metadata()
}

/// Requests of a prepare for the state machine; none for operations of the protocol itself.
fn requests_of(frame: &PrepareFrame) -> Result<Vec<SubRequest>, FatalReason> {
    let area = frame.header.area;
    if !is_for_state_machine(area.operation) {
        return Ok(Vec::new());
    }
    if area.flags.contains(PrepareFlags::MULTI) {
        return multi::decode(&frame.body)
            .map_err(|_| FatalReason::Invariant("a prepare's table of requests is readable"));
    }
    Ok(alloc::vec![SubRequest {
        client: area.client,
        session: area.session,
        request: area.request,
        count: area.count,
        ack_level: 0,
        body: frame.body.clone(),
    }])
}
