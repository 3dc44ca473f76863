//! Certificate revocation lists.

use std::path::Path;

use headrace_model::Level;
use headrace_runtime::Events;
use rustls_pki_types::{CertificateRevocationListDer, pem::PemObject};
use x509_parser::{prelude::FromDer, revocation_list::CertificateRevocationList};

use super::{facts::seconds_now, problem::CertificateProblem, read::content};

/// Revocation lists of one file, in the form that a verifier takes.
pub(super) struct Revocations {
    pub(super) lists: Vec<CertificateRevocationListDer<'static>>,
    pub(super) facts: RevocationFacts,
}

/// Properties of the lists, for reports.
#[derive(Debug, Clone)]
pub(crate) struct RevocationFacts {
    revoked_count: usize,
    /// Expiry of the list that expires first.
    valid_until: String,
}

impl RevocationFacts {
    pub(super) fn announce(&self, listener: &str, events: &Events) {
        let Self {
            revoked_count,
            valid_until,
        } = self;
        let message = format!(
            "{listener}: {revoked_count} certificates of clients are revoked (as of a list that is valid until {valid_until})"
        );
        events.push(Level::Info, message);
    }
}

/// Read the lists in a file. An expired list has no information about the present, so it is refused.
pub(super) fn revocations(
    path: Option<&Path>,
    pem: &[u8],
) -> Result<Revocations, CertificateProblem> {
    let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| content(path, &error))?;
    let mut revoked_count = 0;
    let mut first_end = None;
    for list in &lists {
        let (_, parsed) = CertificateRevocationList::from_der(list)
            .map_err(|error| content(path, &format!("it is not a revocation list: {error}")))?;
        revoked_count += parsed.iter_revoked_certificates().count();
        let Some(until) = parsed.next_update() else {
            return Err(content(
                path,
                &"a list does not say when the next one comes",
            ));
        };
        if until.timestamp() <= seconds_now() {
            return Err(content(
                path,
                &format!(
                    "the revocation list of {} ended at {until}: put the authority's next one there",
                    parsed.issuer()
                ),
            ));
        }
        let end = (until.timestamp(), until.to_string());
        first_end = first_end.map_or(Some(end.clone()), |first| Some(std::cmp::min(first, end)));
    }
    let Some((_, valid_until)) = first_end else {
        return Err(content(path, &"it holds no revocation list"));
    };
    Ok(Revocations {
        lists,
        facts: RevocationFacts {
            revoked_count,
            valid_until,
        },
    })
}
