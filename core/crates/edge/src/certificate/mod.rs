//! TLS credentials: the process's own certificates and the authorities for its peers', read from files and renewed at
//! run time.

mod clients;
mod facts;
mod outgoing;
mod problem;
mod read;
mod renewal;
mod revocations;

pub use clients::ClientCertificates;
pub(crate) use clients::{Users, is_revoked};
pub(crate) use outgoing::Outgoing;
pub use problem::CertificateProblem;
pub(crate) use read::{Identity, Purpose};
pub(crate) use renewal::Renewal;
