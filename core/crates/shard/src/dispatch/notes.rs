//! Notifications to the control plane for its audit trail, besides the requests to it.

use std::{collections::BTreeSet, net::IpAddr};

use headrace_model::{Level, Namespace, Timestamp};
use headrace_proto::control::v1::{CertificateLogin, Noted, request::Operation};
use headrace_wire::{CommandCode, Status, newer};

use super::control_request;
use crate::{api::Effect, sessions::connection::Session};

/// Maximum burst of refusals reported by one shard. A user without permission may cause a million per second.
const BURST: u32 = 32;
/// Number of addresses of newer clients that are remembered.
const NEWER_CLIENTS_MAX: usize = 256;
/// Interval after which one more refusal may be reported.
const INTERVAL_MICROS: u64 = 100_000;

/// Rate limiter of reported refusals.
#[derive(Debug)]
pub struct Refusals {
    left: u32,
    filled_at: Timestamp,
    suppressed: u32,
}

impl Default for Refusals {
    fn default() -> Self {
        Self {
            left: BURST,
            filled_at: Timestamp(0),
            suppressed: 0,
        }
    }
}

impl Refusals {
    /// Acquire permission for one report. Returns the number of refusals dropped before it, or `None` if the limit is
    /// reached.
    pub fn take(&mut self, now: Timestamp) -> Option<u32> {
        let gained = now.0.saturating_sub(self.filled_at.0) / INTERVAL_MICROS;
        if gained > 0 {
            let gained = u32::try_from(gained).unwrap_or(BURST);
            self.left = self.left.saturating_add(gained).min(BURST);
            self.filled_at = now;
        }
        if self.left == 0 {
            self.suppressed = self.suppressed.saturating_add(1);
            return None;
        }
        self.left -= 1;
        Some(core::mem::take(&mut self.suppressed))
    }

    /// Report a request refused for a missing permission, unless it came from another interface of this process, which
    /// knows more about the caller.
    pub(crate) fn note(
        &mut self,
        now: Timestamp,
        session: &Session,
        code: u32,
        status: Status,
        effects: &mut Vec<Effect>,
    ) {
        if status != Status::UNAUTHORIZED || session.arrival.is_in_process() {
            return;
        }
        let Some(suppressed_count) = self.take(now) else {
            return;
        };
        let noted = Noted {
            command: code,
            status: status.0,
            suppressed_count,
            subject: String::new(),
        };
        effects.push(Effect::Notice {
            request: control_request(session, Operation::Noted(noted)),
        });
    }
}

/// Report a newer client, each address once.
pub(crate) fn note_newer_client(
    known: &mut BTreeSet<IpAddr>,
    session: &Session,
    effects: &mut Vec<Effect>,
) {
    let address = session.arrival.address.ip();
    if known.contains(&address) {
        return;
    }
    if known.len() == NEWER_CLIENTS_MAX {
        known.clear();
    }
    known.insert(address);
    effects.push(Effect::Report {
        level: Level::Warning,
        message: format!("{address} was not let in: {}", newer::EXPLANATION),
    });
}

/// Report a connection that a TLS client certificate authenticated from its start.
pub(crate) fn note_certificate_login(session: &Session, effects: &mut Vec<Effect>) {
    effects.push(Effect::Notice {
        request: control_request(
            session,
            Operation::CertificateLogin(CertificateLogin::default()),
        ),
    });
}

/// Report a request to a partition if it removes data.
pub(crate) fn note_partition_change(
    session: &Session,
    code: u32,
    namespace: Namespace,
    effects: &mut Vec<Effect>,
) {
    if code == CommandCode::DeleteSegments.code() {
        let subject = format!(
            "{}/{}/{}",
            namespace.stream(),
            namespace.topic(),
            namespace.partition()
        );
        note_change(session, code, subject, effects);
    }
}

/// Report an answered request if it has closed another connection.
pub(crate) fn note_disconnection(
    session: &Session,
    code: u32,
    payload: &[u8],
    effects: &mut Vec<Effect>,
) {
    if let (true, Some(client)) = (
        code == CommandCode::DisconnectClient.code(),
        payload.first_chunk(),
    ) {
        let subject = format!("client {}", u32::from_le_bytes(*client));
        note_change(session, code, subject, effects);
    }
}

/// Report a change that is not a request to the control plane.
fn note_change(session: &Session, code: u32, subject: String, effects: &mut Vec<Effect>) {
    let noted = Noted {
        command: code,
        status: Status::OK.0,
        suppressed_count: 0,
        subject,
    };
    effects.push(Effect::Notice {
        request: control_request(session, Operation::Noted(noted)),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_counted_and_not_reported() {
        let mut refusals = Refusals::default();
        let now = Timestamp(1_000_000_000);
        let reported = (0..1000).filter(|_| refusals.take(now).is_some()).count();
        assert_eq!(reported, BURST as usize);
        let later = Timestamp(now.0 + INTERVAL_MICROS);
        assert_eq!(refusals.take(later), Some(1000 - BURST));
        assert_eq!(refusals.take(later), None);
    }
}
