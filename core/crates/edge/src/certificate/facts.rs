//! Subject, issuer and validity of a certificate.

use std::time::{SystemTime, UNIX_EPOCH};

use rustls_pki_types::CertificateDer;
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer};

use super::problem::CertificateProblem;

/// Properties of the first certificate of a chain, for log lines and for checks of its validity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Distinguished names of subject and issuer.
    pub(crate) subject: String,
    pub(crate) issuer: String,
    /// Validity, in seconds since the epoch.
    from: i64,
    until: i64,
    pub(crate) valid_from: String,
    pub(crate) valid_until: String,
    /// True if its key is on the curve P-256, the only one that the official QUIC client accepts without verification.
    pub(crate) is_p256: bool,
}

impl Facts {
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Self, rustls::Error> {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_not_x509| {
            rustls::Error::InvalidCertificate(rustls::CertificateError::BadEncoding)
        })?;
        let validity = parsed.validity();
        Ok(Self {
            subject: parsed.subject().to_string(),
            issuer: parsed.issuer().to_string(),
            from: validity.not_before.timestamp(),
            until: validity.not_after.timestamp(),
            valid_from: validity.not_before.to_string(),
            valid_until: validity.not_after.to_string(),
            is_p256: is_p256(&parsed),
        })
    }

    /// Check that the certificate is valid now.
    pub(crate) fn check_time(&self) -> Result<(), CertificateProblem> {
        if (self.from..=self.until).contains(&seconds_now()) {
            return Ok(());
        }
        Err(CertificateProblem::NotNow {
            from: self.valid_from.clone(),
            until: self.valid_until.clone(),
        })
    }
}

/// Seconds since the epoch.
pub(super) fn seconds_now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
        })
}

fn is_p256(certificate: &X509Certificate<'_>) -> bool {
    let algorithm = &certificate.public_key().algorithm;
    let curve = algorithm
        .parameters
        .as_ref()
        .and_then(|parameters| parameters.as_oid().ok());
    curve.is_some_and(|curve| curve == x509_parser::oid_registry::OID_EC_P256)
}

/// Names of a client's certificate, the most specific first: common names of the subject, then alternative names (of
/// hosts, of mailboxes).
pub(crate) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let common = parsed
        .subject()
        .iter_common_name()
        .filter_map(|name| name.as_str().ok());
    let alternative = parsed.subject_alternative_name().ok().flatten();
    let alternative = alternative
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::RFC822Name(name) => Some(*name),
            _ => None,
        });
    common.chain(alternative).map(str::to_owned).collect()
}
