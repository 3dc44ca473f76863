//! Parsing of server addresses, and TLS connections.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::ClientError;

const SCHEME: &str = "tls://";

/// A connection through TLS.
pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// An address as written by users: `host:port`, or `tls://host:port?ca=FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Host and port, `host:port`.
    pub address: String,
    /// TLS parameters, if the address requests TLS.
    pub tls: Option<TlsTarget>,
}

/// Expected identity of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsTarget {
    /// Name in its certificate; the host, unless `name=` is given.
    name: String,
    trust: Trust,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Trust {
    /// `ca=`: certificates that one of these authorities has signed (PEM).
    Authorities(PathBuf),
    /// `verify=no`: any certificate. The traffic is encrypted, but the server's identity is not verified.
    Anything,
}

impl Target {
    /// # Errors
    /// The text has neither of the two forms, or requests TLS without `ca=` or `verify=no`.
    pub fn parse(text: &str) -> Result<Self, ClientError> {
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return Ok(Self {
                address: text.to_owned(),
                tls: None,
            });
        };
        let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, _port) = address
            .rsplit_once(':')
            .ok_or_else(|| wrong(format!("{address:?} is not host:port")))?;
        let mut name = host.trim_matches(['[', ']']).to_owned();
        let mut trust = None;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("ca", path)) => trust = Some(Trust::Authorities(path.into())),
                Some(("verify", "no")) => trust = Some(Trust::Anything),
                Some(("name", given)) => given.clone_into(&mut name),
                _ => {
                    let known = "ca=FILE, verify=no and name=NAME";
                    return Err(wrong(format!("{option:?} is none of {known}")));
                }
            }
        }
        let trust = trust.ok_or_else(|| {
            wrong("tls:// needs ca=FILE with the authority to trust, or verify=no".to_owned())
        })?;
        Ok(Self {
            address: address.to_owned(),
            tls: Some(TlsTarget { name, trust }),
        })
    }
}

impl TlsTarget {
    /// Run the handshake.
    pub(crate) fn open(&self, mut stream: TcpStream) -> io::Result<TlsStream> {
        let (name, config) = (self.server_name()?, self.config()?);
        let mut connection = ClientConnection::new(Arc::new(config), name).map_err(invalid)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(connection, stream))
    }

    /// Name that the certificate must have.
    pub fn server_name(&self) -> io::Result<ServerName<'static>> {
        ServerName::try_from(self.name.clone()).map_err(invalid)
    }

    /// Settings of a connection; reads the file of the authorities.
    pub fn config(&self) -> io::Result<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(invalid)?;
        let Trust::Authorities(path) = &self.trust else {
            let verifier = Arc::new(NoVerification(provider));
            return Ok(builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
                .with_no_client_auth());
        };
        let unreadable = |why: &dyn std::fmt::Display| {
            io::Error::new(
                ErrorKind::InvalidInput,
                format!("{}: {why}", path.display()),
            )
        };
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
            let authority = authority.map_err(|error| unreadable(&error))?;
            roots.add(authority).map_err(|error| unreadable(&error))?;
        }
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

/// Accepts any certificate. Signatures with its key are verified all the same.
#[derive(Debug)]
struct NoVerification(Arc<CryptoProvider>);

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn wrong(reason: String) -> ClientError {
    ClientError::InvalidSetting {
        setting: "address",
        reason,
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_tls() {
        let plain = Target::parse("localhost:8090").unwrap();
        assert_eq!(
            (plain.address.as_str(), plain.tls),
            ("localhost:8090", None)
        );
        let target = Target::parse("tls://[::1]:8090?ca=/etc/ca.pem&name=node-1").unwrap();
        assert_eq!(target.address, "[::1]:8090");
        let tls = target.tls.unwrap();
        assert_eq!(tls.name, "node-1");
        assert_eq!(tls.trust, Trust::Authorities("/etc/ca.pem".into()));
        let target = Target::parse("tls://[::1]:8090?verify=no").unwrap();
        assert_eq!(target.tls.unwrap().name, "::1");
    }

    #[test]
    fn tls_is_not_asked_for_by_halves() {
        for text in [
            "tls://localhost:8090",
            "tls://localhost?verify=no",
            "tls://localhost:8090?verify=maybe",
            "tls://localhost:8090?ca",
        ] {
            let problem = Target::parse(text).unwrap_err();
            assert!(
                matches!(
                    problem,
                    ClientError::InvalidSetting {
                        setting: "address",
                        ..
                    }
                ),
                "{problem}"
            );
        }
    }
}
