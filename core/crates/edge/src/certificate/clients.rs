//! Certificates of clients: verified against the configured authorities, and mapped to users.

use std::sync::{Arc, OnceLock};

use headrace_model::UserId;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::CryptoProvider,
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};

use super::{facts::names, problem::CertificateProblem};
use crate::shards::Shards;

/// Policy for client certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// Clients are not asked for a certificate.
    #[default]
    None,
    /// Clients with a certificate are authenticated as its user; clients without one log in.
    Optional,
    /// Clients without a certificate are refused.
    Required,
}

/// Mapping of names in certificates to users, available once a node is set.
#[derive(Clone, Default)]
pub(crate) struct Users {
    shards: Arc<OnceLock<Arc<dyn Shards>>>,
}

impl Users {
    /// Set the node that resolves the names.
    pub(crate) fn set(&self, shards: &Arc<dyn Shards>) {
        // Set twice only by a second start, which is refused before.
        let _ = self.shards.set(Arc::clone(shards));
    }

    /// User that the names in a certificate identify. `None` if they identify no user or several different ones.
    pub(crate) fn of(&self, certificate: &CertificateDer<'_>) -> Option<UserId> {
        let shards = self.shards.get()?;
        let names = names(certificate);
        let mut users = names.iter().filter_map(|name| shards.active_user(name));
        let first = users.next()?;
        users.all(|user| user == first).then_some(first)
    }
}

impl std::fmt::Debug for Users {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Users")
    }
}

/// Verifies as the library does, and additionally refuses certificates without a user, with the alert `access_denied`.
#[derive(Debug)]
pub(crate) struct UserVerifier {
    library: Arc<dyn ClientCertVerifier>,
    users: Users,
}

impl UserVerifier {
    pub(crate) fn new(library: Arc<dyn ClientCertVerifier>, users: Users) -> Self {
        Self { library, users }
    }
}

/// Create a verifier that accepts certificates signed by one of these authorities.
pub(crate) fn library_verifier(
    authorities: RootCertStore,
    wanted: ClientCertificates,
    revoked: Vec<CertificateRevocationListDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateProblem> {
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(provider));
    // Every authority must have a revocation list that has not expired, otherwise its revocations would be unknown.
    let builder = builder.with_crls(revoked).enforce_revocation_expiration();
    let builder = match wanted {
        ClientCertificates::Required => builder,
        ClientCertificates::Optional | ClientCertificates::None => builder.allow_unauthenticated(),
    };
    Ok(builder.build()?)
}

/// Return whether a certificate that was valid before has been revoked since.
pub(crate) fn is_revoked(verifier: &dyn ClientCertVerifier, chain: &[CertificateDer<'_>]) -> bool {
    let Some((end_entity, intermediates)) = chain.split_first() else {
        return false;
    };
    let outcome = verifier.verify_client_cert(end_entity, intermediates, UnixTime::now());
    matches!(
        outcome,
        Err(Error::InvalidCertificate(CertificateError::Revoked))
    )
}

impl ClientCertVerifier for UserVerifier {
    fn offer_client_auth(&self) -> bool {
        self.library.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.library.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.library.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .library
            .verify_client_cert(end_entity, intermediates, now)?;
        match self.users.of(end_entity) {
            Some(_) => Ok(verified),
            None => Err(Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            )),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.library
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.library
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.library.supported_verify_schemes()
    }
}
