//! What goes to the control plane for its audit trail, besides what it is asked for.

use headrace_model::{Namespace, Timestamp};
use headrace_proto::control::v1::{CertificateLogin, Noted, request::Operation};
use headrace_wire::{CommandCode, Status};

use super::control_request;
use crate::{Shard, api::Effect, connection::Session};

/// Refusals of one shard that are reported at a time; a stranger to a topic may be refused a million times a second.
const BURST: u32 = 32;
/// One more is reported after so long.
const INTERVAL_MICROS: u64 = 100_000;

/// How many refusals may be reported now.
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
    /// Take the place of one report; returns how many before it had none. `None`: there is no place.
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
}

impl Shard {
    /// A request was refused. Reported when that was for a missing right, unless another interface of this process, which
    /// knows more about the caller, has asked.
    pub(crate) fn note_refusal(
        &mut self,
        session: &Session,
        code: u32,
        status: Status,
        effects: &mut Vec<Effect>,
    ) {
        if status != Status::UNAUTHORIZED || session.arrival.is_in_process() {
            return;
        }
        let Some(suppressed_count) = self.refusals.take(self.now) else {
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

/// A connection is its user's from its beginning, by the certificate that it has shown.
pub(crate) fn note_certificate_login(session: &Session, effects: &mut Vec<Effect>) {
    effects.push(Effect::Notice {
        request: control_request(
            session,
            Operation::CertificateLogin(CertificateLogin::default()),
        ),
    });
}

/// A partition is asked for something: reported when that removes what it holds.
pub(super) fn note_partition_change(
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

/// A request was answered: reported when it has ended another connection.
pub(super) fn note_disconnection(
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

/// Report a change that is no request to the control plane.
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
