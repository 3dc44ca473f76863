//! Building TLS configurations from files.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use headrace_model::Level;
use headrace_runtime::Events;
use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::CryptoProvider,
    server::{NoServerSessionStorage, danger::ClientCertVerifier},
    version::{TLS12, TLS13},
};
use rustls_pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject,
};

use super::{
    clients::{ClientCertificates, UserVerifier, Users, library_verifier},
    facts::Facts,
    problem::CertificateProblem,
    renewal::Credentials,
    revocations::{RevocationFacts, revocations as read_revocations},
};
use crate::config::CertificateFiles;

/// Name in generated certificates.
const SELF_SIGNED_NAME: &str = "localhost";

/// Use of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// TLS 1.2 and 1.3 on a stream socket.
    Stream,
    /// TLS 1.3 inside QUIC.
    Quic,
}

/// TLS versions on stream sockets.
static STREAM_VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
/// TLS version inside QUIC.
static QUIC_VERSIONS: [&SupportedProtocolVersion; 1] = [&TLS13];

impl Purpose {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            Self::Stream => &STREAM_VERSIONS,
            Self::Quic => &QUIC_VERSIONS,
        }
    }
}

/// Sources of a listener's certificate and of the authorities for its clients' certificates.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) files: CertificateFiles,
    pub(crate) purpose: Purpose,
    pub(crate) clients: ClientCertificates,
    pub(crate) authority_file: Option<PathBuf>,
    /// Revocation lists of the authorities; `None`: no revocation.
    pub(crate) revocation_file: Option<PathBuf>,
    /// Mapping of client certificates to users; `None`: no mapping, a signature of one of the authorities is enough.
    pub(crate) users: Option<Users>,
}

/// Contents of the files at one moment.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Material {
    /// Certificate and key; `None`: to be generated.
    pair: Option<(Vec<u8>, Vec<u8>)>,
    authorities: Option<Vec<u8>>,
    revocations: Option<Vec<u8>>,
}

/// A usable server configuration and its properties.
#[derive(Clone)]
pub(crate) struct Ready {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) facts: Facts,
    pub(crate) is_self_signed: bool,
    /// Verifier that detects revoked certificates; `None`: there are no revocation lists.
    pub(crate) revocations: Option<(Arc<dyn ClientCertVerifier>, RevocationFacts)>,
}

impl Ready {
    /// Verifier that detects revoked certificates, if there are revocation lists.
    pub(crate) fn verifier_of_revoked(&self) -> Option<Arc<dyn ClientCertVerifier>> {
        let (verifier, _) = self.revocations.as_ref()?;
        Some(Arc::clone(verifier))
    }
}

impl Credentials for Identity {
    type Material = Material;
    type Ready = Ready;

    fn read(&self) -> Result<Material, CertificateProblem> {
        let CertificateFiles {
            cert_file,
            key_file,
            self_signed,
        } = &self.files;
        let pair = match (cert_file, key_file) {
            (Some(certificate), Some(key)) => {
                match fs::read(certificate) {
                    // Generate one until the operator supplies the file.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && *self_signed => None,
                    Err(source) => return Err(unreadable(certificate, source)),
                    Ok(bytes) => Some((bytes, read_file(key)?)),
                }
            }
            (None, None) if *self_signed => None,
            (None, None) => return Err(CertificateProblem::NoneWanted),
            (Some(_), None) => return Err(half("cert_file", "key_file")),
            (None, Some(_)) => return Err(half("key_file", "cert_file")),
        };
        let authorities = match (self.clients, &self.authority_file) {
            (ClientCertificates::None, _) => None,
            (_, Some(path)) => Some(read_file(path)?),
            (_, None) => return Err(half("client_certificates", "client_ca_file")),
        };
        let revocations = (self.revocation_file.as_deref())
            .filter(|_| authorities.is_some())
            .map(read_file)
            .transpose()?;
        Ok(Material {
            pair,
            authorities,
            revocations,
        })
    }

    fn build(&self, material: &Material) -> Result<Ready, CertificateProblem> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let is_self_signed = material.pair.is_none();
        let (chain, key) = match &material.pair {
            Some((certificate, key)) => (
                certificates(self.files.cert_file.as_deref(), certificate)?,
                private_key(self.files.key_file.as_deref(), key)?,
            ),
            None => self_signed()?,
        };
        let facts = chain
            .first()
            .map_or_else(|| Err(rustls::Error::NoCertificatesPresented), Facts::of)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(self.purpose.versions())?;
        let mut revocations = None;
        let builder = match &material.authorities {
            Some(authorities) => {
                let revoked = material
                    .revocations
                    .as_deref()
                    .map(|pem| read_revocations(self.revocation_file.as_deref(), pem))
                    .transpose()?;
                let (lists, facts) = revoked.map_or((Vec::new(), None), |revoked| {
                    (revoked.lists, Some(revoked.facts))
                });
                let library = self.library_verifier(authorities, lists, &provider)?;
                revocations = facts.map(|facts| (Arc::clone(&library), facts));
                builder.with_client_cert_verifier(self.verifier(library))
            }
            None => builder.with_no_client_auth(),
        };
        let mut server = builder.with_single_cert(chain, key)?;
        if material.authorities.is_some() {
            // A resumed session does not show its certificate again: neither an authority that was removed nor a user
            // that was deactivated would be noticed.
            server.session_storage = Arc::new(NoServerSessionStorage {});
            server.send_tls13_tickets = 0;
        }
        Ok(Ready {
            server: Arc::new(server),
            facts,
            is_self_signed,
            revocations,
        })
    }

    fn check_time(ready: &Ready) -> Result<(), CertificateProblem> {
        ready.facts.check_time()
    }

    fn check_succession(new: &Ready, old: &Ready) -> Result<(), CertificateProblem> {
        if new.is_self_signed && !old.is_self_signed {
            // Most likely moved away to make room for the next one.
            return Err(CertificateProblem::Gone);
        }
        Ok(())
    }

    fn announce(&self, listener: &str, ready: &Ready, events: &Events) {
        let facts = &ready.facts;
        let origin = if ready.is_self_signed {
            "self-signed, made by this process".to_owned()
        } else {
            format!("signed by {}", facts.issuer)
        };
        events.push(
            Level::Info,
            format!(
                "{listener}: certificate of {} in use ({origin}, valid until {})",
                facts.subject, facts.valid_until
            ),
        );
        if let Some((_, revocations)) = &ready.revocations {
            revocations.announce(listener, events);
        }
        if let (true, Some(file)) = (ready.is_self_signed, &self.files.cert_file) {
            let message = format!("{listener}: {} does not exist", file.display());
            events.push(Level::Warning, message);
        }
        if self.purpose == Purpose::Quic && !facts.is_p256 {
            events.push(
            Level::Warning,
            format!(
                "{listener}: the certificate's key is not on the curve P-256: official clients that do not verify \
                 certificates cannot connect"
            ),
        );
        }
    }

    fn name_in_use(ready: &Ready) -> String {
        format!("the old one, valid until {},", ready.facts.valid_until)
    }
}

impl Identity {
    fn library_verifier(
        &self,
        authorities: &[u8],
        revoked: Vec<CertificateRevocationListDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, CertificateProblem> {
        let roots = roots(self.authority_file.as_deref(), authorities)?;
        library_verifier(roots, self.clients, revoked, provider)
    }

    fn verifier(&self, library: Arc<dyn ClientCertVerifier>) -> Arc<dyn ClientCertVerifier> {
        match &self.users {
            Some(users) => Arc::new(UserVerifier::new(library, users.clone())),
            None => library,
        }
    }
}

/// Parse the authorities in a file.
pub(super) fn roots(path: Option<&Path>, pem: &[u8]) -> Result<RootCertStore, CertificateProblem> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path, pem)? {
        roots.add(authority)?;
    }
    Ok(roots)
}

pub(super) fn private_key(
    path: Option<&Path>,
    pem: &[u8],
) -> Result<PrivateKeyDer<'static>, CertificateProblem> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| content(path, &error))
}

pub(super) fn certificates(
    path: Option<&Path>,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, CertificateProblem> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(content(path, &"it holds no certificate"))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(content(path, &error)),
    }
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Generate a certificate for `localhost` on the curve P-256: the only kind that every official client accepts.
fn self_signed() -> Result<Pair, CertificateProblem> {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let mut parameters = rcgen::CertificateParams::new(vec![SELF_SIGNED_NAME.to_owned()])?;
    let mut name = rcgen::DistinguishedName::new();
    name.push(rcgen::DnType::CommonName, SELF_SIGNED_NAME);
    parameters.distinguished_name = name;
    let certificate = parameters.self_signed(&key)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((vec![certificate.der().clone()], key.into()))
}

pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, CertificateProblem> {
    fs::read(path).map_err(|source| unreadable(path, source))
}

fn unreadable(path: &Path, source: io::Error) -> CertificateProblem {
    CertificateProblem::Unreadable {
        path: path.to_owned(),
        source,
    }
}

pub(super) fn content(path: Option<&Path>, why: &dyn std::fmt::Display) -> CertificateProblem {
    CertificateProblem::Content {
        path: path.map_or_else(PathBuf::new, Path::to_owned),
        why: why.to_string(),
    }
}

pub(super) fn half(given: &'static str, missing: &'static str) -> CertificateProblem {
    CertificateProblem::Half { given, missing }
}
