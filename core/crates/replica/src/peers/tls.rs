//! Certificates of the peers: both sides present one signed by the configured authority.

use std::{fs, path::Path, sync::Arc};

use ring::digest;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig, client::Resumption, server::WebPkiClientVerifier,
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};

use crate::{config::TlsConfig, errors::StartError};

/// TLS configurations for new connections.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
}

/// Contents of the certificate files at one moment.
pub(crate) struct CertificateFiles {
    chain: Vec<u8>,
    key: Vec<u8>,
    authorities: Vec<u8>,
}

impl CertificateFiles {
    /// Read the files named in the settings.
    pub(crate) fn read(config: &TlsConfig) -> Result<Self, StartError> {
        let read = |path: &Path| fs::read(path).map_err(|error| wrong(path, &error));
        Ok(Self {
            chain: read(&config.certificate)?,
            key: read(&config.key)?,
            authorities: read(&config.authority)?,
        })
    }

    /// Digest of all files.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut digest = digest::Context::new(&digest::SHA256);
        for part in [&self.chain, &self.key, &self.authorities] {
            digest.update(digest::digest(&digest::SHA256, part).as_ref());
        }
        let digest = digest.finish();
        *digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
    }
}

impl Tls {
    /// Load the files named in the settings.
    pub(crate) fn load(config: &TlsConfig) -> Result<Self, StartError> {
        Self::build(config, &CertificateFiles::read(config)?)
    }

    /// Build the TLS configurations from the files.
    pub(crate) fn build(
        config: &TlsConfig,
        material: &CertificateFiles,
    ) -> Result<Self, StartError> {
        let chain = certificates(&config.certificate, &material.chain)?;
        let key = PrivateKeyDer::from_pem_slice(&material.key)
            .map_err(|error| wrong(&config.key, &error))?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(&config.authority, &material.authorities)? {
            roots
                .add(authority)
                .map_err(|error| wrong(&config.authority, &error))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| wrong(&config.authority, &error))?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| wrong(&config.certificate, &error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| wrong(&config.certificate, &error))?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| wrong(&config.certificate, &error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|error| wrong(&config.certificate, &error))?;
        // A resumed session presents no certificate, and connections are few.
        client.resumption = Resumption::disabled();
        Ok(Self {
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }
}

/// Name that the certificate of the replica at `address` (`host:port`) must carry.
pub(crate) fn server_name(address: &str) -> Option<ServerName<'static>> {
    let (host, _port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).ok()
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let read = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(path, &error))?;
    if read.is_empty() {
        return Err(wrong(path, &"it holds no certificate"));
    }
    Ok(read)
}

fn wrong(path: &Path, why: &dyn std::fmt::Display) -> StartError {
    StartError::Settings(format!("{}: {why}", path.display()))
}
