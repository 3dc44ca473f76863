//! What can be wrong with a certificate.

use std::{io, path::PathBuf};

/// Why a certificate is not used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateProblem {
    /// Neither a file nor permission to make one.
    #[error("cert_file and key_file are needed, or self_signed")]
    NoneWanted,
    /// One of two settings that belong together is missing.
    #[error("{given} is given without {missing}")]
    Half {
        /// What is there.
        given: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// There was one, and its file does not exist any more.
    #[error("its file is gone")]
    Gone,
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {why}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Certificate and key do not make a server.
    #[error("the certificate cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    /// The verifier of client certificates cannot be made.
    #[error("the authorities of client certificates cannot be used: {0}")]
    Authorities(#[from] rustls::server::VerifierBuilderError),
    /// No certificate can carry this name.
    #[error("{0:?} is no name of a host")]
    Name(String),
    /// None could be made.
    #[error("a self-signed certificate cannot be made: {0}")]
    NotMade(#[from] rcgen::Error),
    /// QUIC needs AES-128-GCM in TLS 1.3.
    #[error("there is no cipher for QUIC")]
    NoQuicCipher,
    /// Its time is over, or has not come.
    #[error("the certificate is valid from {from} to {until} only")]
    NotNow {
        /// First day.
        from: String,
        /// Last day.
        until: String,
    },
}
