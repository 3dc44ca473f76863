//! Reasons of failed QUIC handshakes.

use quinn::{ConnectionError, TransportErrorCode};
use rustls::AlertDescription;

use crate::tls::Reason;

/// First code of the TLS alerts inside QUIC.
const CRYPTO: u64 = 0x100;

pub(super) fn reason(error: &ConnectionError) -> Reason {
    match error {
        ConnectionError::TimedOut => Reason::timeout(),
        ConnectionError::VersionMismatch => Reason::new("incompatible", error.to_string()),
        ConnectionError::ConnectionClosed(close) => {
            alert(close.error_code).map_or_else(|| closed(error), Reason::of_alert)
        }
        ConnectionError::TransportError(problem) => match alert(problem.code) {
            Some(
                AlertDescription::NoApplicationProtocol
                | AlertDescription::ProtocolVersion
                | AlertDescription::HandshakeFailure,
            ) => Reason::new("incompatible", problem.to_string()),
            _ => Reason::new("protocol", problem.to_string()),
        },
        _ => closed(error),
    }
}

fn closed(error: &ConnectionError) -> Reason {
    Reason::new("closed", format!("it closed the connection: {error}"))
}

fn alert(code: TransportErrorCode) -> Option<AlertDescription> {
    let alert = u64::from(code).checked_sub(CRYPTO)?;
    Some(AlertDescription::from(u8::try_from(alert).ok()?))
}
