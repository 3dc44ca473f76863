//! Peers that did not become connections: counted by reason, and told of in few lines.

use std::{
    io,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use headrace_model::Level;
use headrace_runtime::Events;
use rustls::{AlertDescription, Error};

use crate::counters::DoorCounters;

/// After a line about a failure, those that follow share one for this long.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Why a peer did not become a connection. `name` is for counters, the text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

impl Reason {
    pub(crate) fn new(name: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { name, text }
    }

    pub(crate) fn timeout() -> Self {
        Self::new("timeout", "it did not complete its handshake in time")
    }

    pub(crate) fn crowded_out() -> Self {
        Self::new("crowded_out", "others waited for its place and it was slow")
    }

    pub(crate) fn busy() -> Self {
        Self::new("busy", "no shard could take it")
    }

    /// What went wrong in a handshake over a stream.
    pub(crate) fn of_stream(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match inner {
            Some(error) => Self::of_tls(error),
            None => Self::new("closed", format!("it closed the connection: {error}")),
        }
    }

    /// What a TLS library found wrong.
    pub(crate) fn of_tls(error: &Error) -> Self {
        let name = match error {
            Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => "not_tls",
            Error::PeerIncompatible(_) => "incompatible",
            Error::NoCertificatesPresented => "no_client_certificate",
            Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure) => {
                let text = "its certificate is not one of a user who may log in";
                return Self::new("certificate_of_nobody", text);
            }
            Error::InvalidCertificate(_) => "client_certificate",
            Error::AlertReceived(alert) => return Self::of_alert(*alert),
            _ => "protocol",
        };
        Self::new(name, error.to_string())
    }

    pub(crate) fn of_alert(alert: AlertDescription) -> Self {
        let name = match alert {
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate => "our_certificate_refused",
            _ => "alert",
        };
        Self::new(name, format!("it sent the alert {alert:?}"))
    }
}

#[derive(Default)]
struct Recent {
    line_at: Option<Instant>,
    unsaid: u64,
}

/// The log of one door's failures.
pub(crate) struct FailureLog {
    door: &'static str,
    events: Events,
    recent: Mutex<Recent>,
}

impl FailureLog {
    pub(crate) fn new(door: &'static str, events: Events) -> Self {
        Self {
            door,
            events,
            recent: Mutex::default(),
        }
    }

    /// Count a failure, and tell of it unless there was a line a moment ago.
    pub(crate) fn failed(&self, counters: &DoorCounters, peer: SocketAddr, reason: &Reason) {
        counters.failed(reason.name);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if recent
            .line_at
            .is_some_and(|at| now.duration_since(at) < LINE_INTERVAL)
        {
            recent.unsaid += 1;
            return;
        }
        recent.line_at = Some(now);
        let unsaid = std::mem::take(&mut recent.unsaid);
        drop(recent);
        let before = if unsaid > 0 {
            format!(" ({unsaid} more since the last line like this)")
        } else {
            String::new()
        };
        let door = self.door;
        self.events.push(
            Level::Warning,
            format!("{door}: {peer} was not let in: {}{before}", reason.text),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_one_by_one_and_told_together() {
        let events = Events::default();
        let counters = DoorCounters::default();
        let log = FailureLog::new("tcp", events.clone());
        let peer = SocketAddr::from(([10, 0, 0, 1], 5));
        for _ in 0..100 {
            log.failed(&counters, peer, &Reason::timeout());
        }
        assert_eq!(counters.report().failures["timeout"], 100);
        let told = events.take();
        assert_eq!(told.len(), 1);
        assert!(
            told[0].message.contains("10.0.0.1:5 was not let in"),
            "{told:?}"
        );
    }

    #[test]
    fn what_a_peer_thinks_of_our_certificate_is_a_reason_of_its_own() {
        let reason = Reason::of_tls(&Error::AlertReceived(AlertDescription::UnknownCA));
        assert_eq!(reason.name, "our_certificate_refused");
        let reason = Reason::of_stream(&io::Error::from(io::ErrorKind::UnexpectedEof));
        assert_eq!(reason.name, "closed");
    }
}
