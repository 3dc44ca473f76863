//! Client table: executes each request of a session at most once.
//!
//! The table is part of the replicated state. It changes only when an operation is executed, identically on all
//! replicas, and is part of every checkpoint. A request is checked against the table at admission and again at
//! execution, because a request may be admitted twice around a view change.
//!
//! Request numbers may have gaps: a client that has lost a reply for good continues with the next number.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::CommandReply;
use crate::rules::{Repeat, Rules};

/// Last request of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Operation that registered the session.
    pub session: u64,
    /// Number of the last executed request; 0 if there was none.
    pub last_request: u64,
    /// Checksum of the command in that request.
    pub last_checksum: u128,
    /// Operation that executed it.
    pub last_op: u64,
    /// Timestamp of that operation.
    pub last_timestamp_ns: u64,
    /// Code of that operation.
    pub last_operation: u8,
    /// Reply to that request.
    pub reply: CommandReply,
}

/// Verdict of the table about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// New: must be executed.
    Fresh,
    /// Executed as the last request of the session; the reply is known.
    Repeated(&'a Session),
    /// The request number was already used for another command.
    Reused(&'a Session),
    /// Older than the last request; no client waits for the reply.
    Stale,
    /// The client has no session.
    NoSession,
    /// The client has a newer session.
    Fenced,
    /// The client names a session that does not exist yet.
    Unknown,
}

/// Error: the client table in a checkpoint is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client table of the checkpoint is damaged")]
pub struct DamagedTable;

/// Sessions of a group.
#[derive(Debug, Clone, Default)]
pub struct ClientTable {
    sessions: BTreeMap<u128, Session>,
}

impl ClientTable {
    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Return whether the table has no sessions.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Session of a client.
    pub fn get(&self, client: u128) -> Option<&Session> {
        self.sessions.get(&client)
    }

    /// Validate a request. `checksum` is that of its command.
    pub fn check(
        &self,
        rules: &impl Rules,
        client: u128,
        session: u64,
        request: u64,
        checksum: u128,
    ) -> Verdict<'_> {
        let Some(entry) = self.sessions.get(&client) else {
            return Verdict::NoSession;
        };
        if session < entry.session {
            return Verdict::Fenced;
        }
        if session > entry.session {
            return Verdict::Unknown;
        }
        if !rules.repeated(Repeat {
            last_request: entry.last_request,
            request,
        }) {
            return Verdict::Fresh;
        }
        if request < entry.last_request {
            Verdict::Stale
        } else if checksum == entry.last_checksum {
            Verdict::Repeated(entry)
        } else {
            Verdict::Reused(entry)
        }
    }

    /// Open a session. A second registration of a client fences its previous session. Above `capacity`, the session
    /// used longest ago is closed. Eviction depends on the log alone and is therefore identical on all replicas.
    pub fn register(
        &mut self,
        client: u128,
        op: u64,
        timestamp_ns: u64,
        operation: u8,
        capacity: usize,
    ) -> Option<u128> {
        self.sessions.insert(
            client,
            Session {
                session: op,
                last_request: 0,
                last_checksum: 0,
                last_op: op,
                last_timestamp_ns: timestamp_ns,
                last_operation: operation,
                reply: CommandReply::default(),
            },
        );
        if self.sessions.len() <= capacity {
            return None;
        }
        let oldest = self
            .sessions
            .iter()
            .filter(|(other, _)| **other != client)
            .min_by_key(|(other, session)| (session.last_op, **other))
            .map(|(other, _)| *other)?;
        self.sessions.remove(&oldest);
        Some(oldest)
    }

    /// Close a session.
    pub fn unregister(&mut self, client: u128, session: u64) {
        if self
            .sessions
            .get(&client)
            .is_some_and(|entry| entry.session == session)
        {
            self.sessions.remove(&client);
        }
    }

    /// Record an executed request.
    pub fn record(&mut self, client: u128, executed: Session) {
        if let Some(entry) = self.sessions.get_mut(&client)
            && entry.session == executed.session
        {
            *entry = executed;
        }
    }

    /// Canonical encoding: sessions ordered by client, all numbers little-endian.
    pub fn encode(&self) -> Slice {
        let mut bytes = Vec::new();
        let count = u32::try_from(self.sessions.len()).expect("the table's capacity is below 2^32");
        bytes.extend_from_slice(&count.to_le_bytes());
        for (client, session) in &self.sessions {
            let length = u32::try_from(session.reply.body.len()).expect("a reply is a frame");
            bytes.extend_from_slice(&client.to_le_bytes());
            bytes.extend_from_slice(&session.session.to_le_bytes());
            bytes.extend_from_slice(&session.last_request.to_le_bytes());
            bytes.extend_from_slice(&session.last_checksum.to_le_bytes());
            bytes.extend_from_slice(&session.last_op.to_le_bytes());
            bytes.extend_from_slice(&session.last_timestamp_ns.to_le_bytes());
            bytes.extend_from_slice(&session.reply.status.to_le_bytes());
            bytes.push(session.last_operation);
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&session.reply.body);
        }
        Slice::from_vec(bytes)
    }

    /// Decode the output of [`ClientTable::encode`]. An empty slice decodes to an empty table.
    pub fn decode(bytes: &[u8]) -> Result<Self, DamagedTable> {
        let mut table = Self::default();
        if bytes.is_empty() {
            return Ok(table);
        }
        let mut rest = Rest(bytes);
        let count = u32::from_le_bytes(rest.take()?);
        for _ in 0..count {
            let client = u128::from_le_bytes(rest.take()?);
            let session = Session {
                session: u64::from_le_bytes(rest.take()?),
                last_request: u64::from_le_bytes(rest.take()?),
                last_checksum: u128::from_le_bytes(rest.take()?),
                last_op: u64::from_le_bytes(rest.take()?),
                last_timestamp_ns: u64::from_le_bytes(rest.take()?),
                reply: CommandReply {
                    status: u32::from_le_bytes(rest.take()?),
                    body: Slice::default(),
                },
                last_operation: u8::from_le_bytes(rest.take()?),
            };
            let length = u32::from_le_bytes(rest.take()?);
            let body = rest.bytes(usize::try_from(length).map_err(|_| DamagedTable)?)?;
            let session = Session {
                reply: CommandReply {
                    status: session.reply.status,
                    body: Slice::from_vec(body.to_vec()),
                },
                ..session
            };
            if table.sessions.insert(client, session).is_some() {
                return Err(DamagedTable);
            }
        }
        if rest.0.is_empty() {
            Ok(table)
        } else {
            Err(DamagedTable)
        }
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DamagedTable> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(DamagedTable)?;
        self.0 = tail;
        Ok(*head)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], DamagedTable> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(DamagedTable)?;
        self.0 = tail;
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::rules::Standard;

    fn table() -> ClientTable {
        let mut table = ClientTable::default();
        table.register(7, 3, 30, 2, 2);
        table
    }

    fn executed(request: u64, op: u64) -> Session {
        Session {
            session: 3,
            last_request: request,
            last_checksum: 99,
            last_op: op,
            last_timestamp_ns: op * 10,
            last_operation: 16,
            reply: CommandReply {
                status: 1,
                body: Slice::from_vec(vec![1, 2, 3]),
            },
        }
    }

    #[test]
    fn ctl_1_each_verdict_of_a_request() {
        let mut table = table();
        table.record(7, executed(4, 5));
        let judge = |client, session, request, checksum| {
            table.check(&Standard, client, session, request, checksum)
        };
        assert_eq!(judge(8, 3, 1, 0), Verdict::NoSession);
        assert_eq!(judge(7, 2, 5, 0), Verdict::Fenced);
        assert_eq!(judge(7, 4, 5, 0), Verdict::Unknown);
        assert_eq!(judge(7, 3, 3, 0), Verdict::Stale);
        assert!(matches!(judge(7, 3, 4, 99), Verdict::Repeated(_)));
        assert!(matches!(judge(7, 3, 4, 98), Verdict::Reused(_)));
        assert_eq!(judge(7, 3, 5, 0), Verdict::Fresh);
        assert_eq!(judge(7, 3, 500, 0), Verdict::Fresh, "gaps are allowed");
    }

    #[test]
    fn ctl_1_the_session_that_was_used_longest_ago_makes_room() {
        let mut table = table();
        table.register(8, 4, 40, 2, 2);
        table.record(7, executed(1, 5));
        assert_eq!(table.register(9, 6, 60, 2, 2), Some(8));
        assert_eq!(table.len(), 2);
        assert!(table.get(7).is_some());
    }

    #[test]
    fn ctl_1_a_second_registration_fences_the_first() {
        let mut table = table();
        table.register(7, 9, 90, 2, 2);
        assert_eq!(table.check(&Standard, 7, 3, 1, 0), Verdict::Fenced);
        table.unregister(7, 3);
        assert!(
            !table.is_empty(),
            "the old session cannot close the new one"
        );
        table.unregister(7, 9);
        assert!(table.is_empty());
    }

    #[test]
    fn ctl_5_the_table_survives_a_checkpoint() {
        let mut table = table();
        table.record(7, executed(4, 5));
        let bytes = table.encode();
        let read = ClientTable::decode(&bytes).unwrap();
        assert_eq!(read.sessions, table.sessions);
        assert_eq!(read.encode(), bytes);
        for length in 1..bytes.len() {
            assert!(ClientTable::decode(&bytes[..length]).is_err());
        }
    }
}
