//! Errors of certificates.

use std::{io, path::PathBuf};

/// Reason why a certificate is not used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateProblem {
    /// Neither a file nor permission to generate a certificate.
    #[error("cert_file and key_file are needed, or self_signed")]
    NoneWanted,
    /// One of two settings that belong together is missing.
    #[error("{given} is given without {missing}")]
    Half {
        /// Setting that is present.
        given: &'static str,
        /// Setting that is missing.
        missing: &'static str,
    },
    /// The certificate file existed before and does not any more.
    #[error("its file is gone")]
    Gone,
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file has invalid contents.
    #[error("{}: {why}", path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        why: String,
    },
    /// Certificate and key do not form a valid server configuration.
    #[error("the certificate cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    /// The verifier of client certificates cannot be built.
    #[error("the authorities of client certificates cannot be used: {0}")]
    Authorities(#[from] rustls::server::VerifierBuilderError),
    /// The name is not valid in a certificate.
    #[error("{0:?} is not a valid host name")]
    Name(String),
    /// A self-signed certificate cannot be generated.
    #[error("a self-signed certificate cannot be made: {0}")]
    NotMade(#[from] rcgen::Error),
    /// QUIC needs AES-128-GCM in TLS 1.3.
    #[error("the TLS library has no cipher for QUIC")]
    NoQuicCipher,
    /// The certificate has expired or is not valid yet.
    #[error("the certificate is valid from {from} to {until} only")]
    NotNow {
        /// First day.
        from: String,
        /// Last day.
        until: String,
    },
}
