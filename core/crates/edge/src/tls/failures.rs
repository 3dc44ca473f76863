//! Failed handshakes: counted by reason, and logged at a limited rate.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use headrace_model::Level;
use headrace_runtime::Events;
use rustls::{AlertDescription, CertificateError, Error};

use crate::counters::ListenerCounters;

/// Time after a log line about a failure during which further failures share one line.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Names of failure reasons that concern a client's certificate.
const NO_CERTIFICATE: &str = "no_client_certificate";
const UNKNOWN_USER: &str = "unknown_user";
const BAD_CERTIFICATE: &str = "client_certificate";

/// Reason of a failed handshake. `name` is for counters, the text for log lines.
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

    /// Return whether the reason is a missing or invalid client certificate.
    pub(crate) fn is_about_certificate(&self) -> bool {
        matches!(self.name, NO_CERTIFICATE | UNKNOWN_USER | BAD_CERTIFICATE)
    }

    /// Reason of a failed handshake over a stream.
    pub(crate) fn of_stream(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match inner {
            Some(error) => Self::of_tls(error),
            None => Self::new("closed", format!("it closed the connection: {error}")),
        }
    }

    /// Reason of a TLS library's error.
    pub(crate) fn of_tls(error: &Error) -> Self {
        let name = match error {
            Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => "not_tls",
            Error::PeerIncompatible(_) => "incompatible",
            Error::NoCertificatesPresented => NO_CERTIFICATE,
            Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
                let text = "its certificate is not one of a user who may log in";
                return Self::new(UNKNOWN_USER, text);
            }
            Error::InvalidCertificate(_) => BAD_CERTIFICATE,
            Error::AlertReceived(alert) => return Self::of_alert(*alert),
            _ => "protocol",
        };
        Self::new(name, error.to_string())
    }

    /// Reason of a failure between this process and a node that it has connected to.
    pub(crate) fn of_node(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        let Some(Error::InvalidCertificate(problem)) = inner else {
            return Self::of_stream(error);
        };
        let name = match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => "expired",
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "wrong_name"
            }
            // A bad signature also results from another authority with the same name.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => "unknown_authority",
            _ => "certificate",
        };
        Self::new(name, format!("its certificate is refused: {problem}"))
    }

    pub(crate) fn of_alert(alert: AlertDescription) -> Self {
        let name = match alert {
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::UnsupportedCertificate => "our_certificate_refused",
            _ => "alert",
        };
        Self::new(name, format!("it sent the alert {alert:?}"))
    }
}

/// Rate limiter of log lines.
#[derive(Default)]
struct Pace {
    line_at: Option<Instant>,
    unsaid: u64,
}

impl Pace {
    /// Return `None` if no line is due yet, otherwise a text about the lines that were suppressed.
    fn line(&mut self) -> Option<String> {
        let now = Instant::now();
        if (self.line_at).is_some_and(|at| now.duration_since(at) < LINE_INTERVAL) {
            self.unsaid += 1;
            return None;
        }
        self.line_at = Some(now);
        let unsaid = std::mem::take(&mut self.unsaid);
        Some(if unsaid > 0 {
            format!(" ({unsaid} more since the last line like this)")
        } else {
            String::new()
        })
    }
}

/// Failure log of one listener.
pub(crate) struct FailureLog {
    listener: &'static str,
    events: Events,
    pace: Mutex<Pace>,
}

impl FailureLog {
    pub(crate) fn new(listener: &'static str, events: Events) -> Self {
        Self {
            listener,
            events,
            pace: Mutex::default(),
        }
    }

    /// Count a failure, and log it unless another one was logged recently.
    pub(crate) fn failed(&self, counters: &ListenerCounters, peer: SocketAddr, reason: &Reason) {
        counters.failed(reason.name);
        let line = self
            .pace
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .line();
        if let Some(before) = line {
            let listener = self.listener;
            self.events.push(
                Level::Warning,
                format!("{listener}: {peer} was not let in: {}{before}", reason.text),
            );
        }
    }
}

/// Log of failures with nodes: each reason of each node is limited separately, so that none hides another.
pub(crate) struct NodeFailureLog {
    events: Events,
    /// Rate limiters by address, of which there are as many as nodes, and reason, of which there are few.
    paces: Mutex<BTreeMap<(String, &'static str), Pace>>,
}

impl NodeFailureLog {
    pub(crate) fn new(events: Events) -> Self {
        Self {
            events,
            paces: Mutex::default(),
        }
    }

    /// Count a failure, and log it unless the same one was logged recently.
    pub(crate) fn failed(&self, counters: &ListenerCounters, node: &str, reason: &Reason) {
        counters.failed(reason.name);
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        let line = paces
            .entry((node.to_owned(), reason.name))
            .or_default()
            .line();
        drop(paces);
        if let Some(before) = line {
            let message = format!("links: no encryption with {node}: {}{before}", reason.text);
            self.events.push(Level::Warning, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_one_by_one_and_logged_together() {
        let events = Events::default();
        let counters = ListenerCounters::default();
        let log = FailureLog::new("tcp", events.clone());
        let peer = SocketAddr::from(([10, 0, 0, 1], 5));
        for _ in 0..100 {
            log.failed(&counters, peer, &Reason::timeout());
        }
        assert_eq!(counters.report().failures["timeout"], 100);
        let logged = events.take();
        assert_eq!(logged.len(), 1);
        assert!(
            logged[0].message.contains("10.0.0.1:5 was not let in"),
            "{logged:?}"
        );
    }

    #[test]
    fn what_a_peer_thinks_of_our_certificate_is_a_reason_of_its_own() {
        let reason = Reason::of_tls(&Error::AlertReceived(AlertDescription::UnknownCA));
        assert_eq!(reason.name, "our_certificate_refused");
        let reason = Reason::of_stream(&io::Error::from(io::ErrorKind::UnexpectedEof));
        assert_eq!(reason.name, "closed");
    }

    #[test]
    fn what_is_wrong_with_a_node_hides_nothing_of_another() {
        let events = Events::default();
        let counters = ListenerCounters::default();
        let log = NodeFailureLog::new(events.clone());
        for problem in [
            CertificateError::Expired,
            CertificateError::Expired,
            CertificateError::NotValidForName,
            CertificateError::UnknownIssuer,
        ] {
            let error = io::Error::other(Error::InvalidCertificate(problem));
            let reason = Reason::of_node(&error);
            for node in ["one:8100", "two:8100"] {
                log.failed(&counters, node, &reason);
            }
        }
        let failures = counters.report().failures;
        let expected = [("expired", 4), ("unknown_authority", 2), ("wrong_name", 2)];
        assert_eq!(failures.into_iter().collect::<Vec<_>>(), expected);
        let logged = events.take();
        assert_eq!(logged.len(), 6, "{logged:?}");
        assert!(logged[1].message.contains("two:8100"), "{logged:?}");
    }
}
