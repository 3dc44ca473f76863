//! Execution of one operation: filter its new commands, process their results (VRR 4.1, steps 5 to 7).

use alloc::vec::Vec;

use crate::api::{ApplyOperation, Command, CommandReply, FatalReason, Notice};
use crate::clients::{ClientTable, Session, Verdict};
use crate::frame::body::multi::{self, SubRequest};
use crate::frame::{Operation, PrepareFlags, PrepareFrame, PrepareHeader, checksum_body};
use crate::replica::flow::{Flow, broken, must};
use crate::replica::requests::admission::Admission;
use crate::replica::requests::responder::Responder;
use crate::rules::Rules;

/// Operation that the state machine is executing.
#[derive(Debug)]
struct Executing {
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
    /// Id of the proposal of this process; 0 for none.
    request_id: u64,
    /// True if the command was passed to the state machine.
    fresh: bool,
}

/// State machine, as far as this replica knows it.
#[derive(Debug)]
pub(crate) struct Execution {
    /// Sessions as of the newest executed operation: at most `clients_max`.
    clients: ClientTable,
    clients_max: usize,
    /// Operation in the state machine: the one above the newest executed, and only one at a time.
    running: Option<Executing>,
}

impl Execution {
    pub(crate) fn new(clients: ClientTable, clients_max: usize) -> Self {
        Self {
            clients,
            clients_max,
            running: None,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    pub(crate) fn clients(&self) -> &ClientTable {
        &self.clients
    }

    /// Take over the sessions of a transferred state.
    pub(crate) fn replace(&mut self, clients: ClientTable) {
        self.clients = clients;
    }

    pub(crate) fn check(&self) -> Flow {
        must(
            self.clients.len() <= self.clients_max,
            "the client table has a bound",
        )
    }

    /// Begin an operation. `request_ids` are those of its proposals of this process, in order.
    pub(crate) fn begin(
        &mut self,
        frame: &PrepareFrame,
        request_ids: &[u64],
        rules: &impl Rules,
    ) -> Result<ApplyOperation, FatalReason> {
        let header = frame.header;
        let requests = requests_of(frame)?;
        let mut parts: Vec<Part> = Vec::with_capacity(requests.len());
        let mut commands = Vec::new();
        for (index, request) in requests.into_iter().enumerate() {
            let part = Part {
                client: request.client,
                session: request.session,
                request: request.request,
                checksum: checksum_body(&request.body),
                request_id: request_ids.get(index).copied().unwrap_or(0),
                fresh: false,
            };
            // Repeat of the admission check: a request may have been admitted twice around a view change.
            let fresh = part.client == 0
                || (!parts.iter().any(|other| other.client == part.client)
                    && matches!(self.verdict(&part, rules), Verdict::Fresh));
            if fresh {
                commands.push(Command {
                    client: part.client,
                    session: part.session,
                    request: part.request,
                    request_id: part.request_id,
                    body: request.body,
                });
            }
            parts.push(Part { fresh, ..part });
        }
        self.running = Some(Executing {
            header,
            bytes: frame.body.len() as u64,
            parts,
        });
        Ok(ApplyOperation {
            op: header.op(),
            checksum: header.checksum,
            timestamp_ns: header.area.timestamp_ns,
            operation: header.area.operation,
            release: header.release_in_force(),
            user_id: header.area.user_id,
            commands,
        })
    }

    fn verdict(&self, part: &Part, rules: &impl Rules) -> Verdict<'_> {
        self.clients.check(
            rules,
            part.client,
            part.session,
            part.request,
            part.checksum,
        )
    }

    /// Complete the operation with the results of its commands, and answer them. Returns the number of its body bytes.
    pub(crate) fn complete(
        &mut self,
        op: u64,
        replies: Vec<CommandReply>,
        admission: &mut Admission,
        responder: &mut Responder<'_>,
        rules: &impl Rules,
    ) -> Result<u64, FatalReason> {
        let Some(executing) = self.running.take() else {
            return broken("an operation is executed once");
        };
        let header = executing.header;
        let expected = executing.parts.iter().filter(|part| part.fresh).count();
        if header.op() != op || replies.len() != expected {
            return broken("each command has one answer");
        }
        self.change_sessions(&header, admission, responder);
        if header.area.operation == Operation::RELEASE {
            let release = header.release_in_force();
            responder.outbox.notice(Notice::ReleaseInForce { release });
        }
        let mut replies = replies.into_iter();
        for part in &executing.parts {
            let request_checksum = admission
                .complete(part.client, part.request)
                .unwrap_or(header.area.request_checksum);
            if part.fresh {
                let reply = replies.next().unwrap_or_default();
                self.record(&header, part, reply, request_checksum, responder);
            } else {
                responder.outbox.notice(Notice::DuplicateRequest);
                if let Verdict::Repeated(session) = self.verdict(part, rules) {
                    responder.reply(part.client, session, request_checksum);
                }
            }
        }
        Ok(executing.bytes)
    }

    /// Carry out an operation of the protocol that changes the sessions.
    fn change_sessions(
        &mut self,
        header: &PrepareHeader,
        admission: &mut Admission,
        responder: &mut Responder<'_>,
    ) {
        let area = header.area;
        if !area.operation.is_for_state_machine() {
            admission.complete(area.client, area.request);
        }
        if area.operation == Operation::REGISTER {
            self.clients.register(
                area.client,
                area.op,
                area.timestamp_ns,
                area.operation.code(),
                self.clients_max,
            );
            if let Some(session) = self.clients.get(area.client) {
                responder.reply(area.client, session, area.request_checksum);
            }
        } else if area.operation == Operation::UNREGISTER {
            self.clients.unregister(area.client, area.session);
            responder.reply_to_unregistration(header);
        }
    }

    fn record(
        &mut self,
        header: &PrepareHeader,
        part: &Part,
        reply: CommandReply,
        request_checksum: u128,
        responder: &mut Responder<'_>,
    ) {
        if part.request_id != 0 {
            responder.committed(part.request_id, header.op(), reply.clone());
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
        responder.reply(part.client, &session, request_checksum);
        self.clients.record(part.client, session);
    }
}

/// Requests of a prepare for the state machine; none for operations of the protocol itself.
fn requests_of(frame: &PrepareFrame) -> Result<Vec<SubRequest>, FatalReason> {
    let area = frame.header.area;
    if !area.operation.is_for_state_machine() {
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
