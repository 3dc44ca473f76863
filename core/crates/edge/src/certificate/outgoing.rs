//! Credentials for connections to partition nodes.

use std::sync::Arc;

use headrace_model::Level;
use headrace_runtime::Events;
use rustls::{ClientConfig, client::Resumption, version::TLS13};

use super::{
    facts::Facts,
    problem::CertificateProblem,
    read::{certificates, half, private_key, read_file, roots},
    renewal::Credentials,
};
use crate::config::LinkTlsConfig;

/// Authorities for the certificates of nodes, and the client certificate that is presented to them.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing(pub(crate) LinkTlsConfig);

/// Contents of the files at one moment.
#[derive(PartialEq, Eq)]
pub(crate) struct Material {
    authorities: Vec<u8>,
    /// Certificate and key; `None`: no client certificate.
    pair: Option<(Vec<u8>, Vec<u8>)>,
}

/// A usable client configuration.
#[derive(Clone)]
pub(crate) struct Ready {
    pub(crate) client: Arc<ClientConfig>,
    /// Properties of the client certificate, if there is one.
    facts: Option<Facts>,
}

impl Credentials for Outgoing {
    type Material = Material;
    type Ready = Ready;

    fn read(&self) -> Result<Material, CertificateProblem> {
        let pair = match (&self.0.cert_file, &self.0.key_file) {
            (Some(certificate), Some(key)) => Some((read_file(certificate)?, read_file(key)?)),
            (None, None) => None,
            (Some(_), None) => return Err(half("cert_file", "key_file")),
            (None, Some(_)) => return Err(half("key_file", "cert_file")),
        };
        Ok(Material {
            authorities: read_file(&self.0.authority_file)?,
            pair,
        })
    }

    fn build(&self, material: &Material) -> Result<Ready, CertificateProblem> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // Nodes are of the same release: no older TLS version needs support.
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])?;
        let roots = roots(Some(&self.0.authority_file), &material.authorities)?;
        let builder = builder.with_root_certificates(roots);
        let (mut client, facts) = match &material.pair {
            Some((certificate, key)) => {
                let chain = certificates(self.0.cert_file.as_deref(), certificate)?;
                let facts = chain.first().map(Facts::of).transpose()?;
                let key = private_key(self.0.key_file.as_deref(), key)?;
                (builder.with_client_auth_cert(chain, key)?, facts)
            }
            None => (builder.with_no_client_auth(), None),
        };
        // A resumed session shows no certificate, so an expired certificate of a node would go unnoticed. Links are
        // few, so full handshakes cost little.
        client.resumption = Resumption::disabled();
        Ok(Ready {
            client: Arc::new(client),
            facts,
        })
    }

    fn check_time(ready: &Ready) -> Result<(), CertificateProblem> {
        ready.facts.as_ref().map_or(Ok(()), Facts::check_time)
    }

    fn check_succession(_new: &Ready, _old: &Ready) -> Result<(), CertificateProblem> {
        Ok(())
    }

    fn announce(&self, listener: &str, ready: &Ready, events: &Events) {
        let shown = match &ready.facts {
            Some(facts) => format!(
                "shows nodes the certificate of {} (signed by {}, valid until {})",
                facts.subject, facts.issuer, facts.valid_until
            ),
            None => "shows nodes no certificate".to_owned(),
        };
        let authority = self.0.authority_file.display();
        let message =
            format!("{listener}: encrypted; {shown}, and trusts the authorities in {authority}");
        events.push(Level::Info, message);
    }

    fn name_in_use(_ready: &Ready) -> String {
        "what the files held before".to_owned()
    }
}
