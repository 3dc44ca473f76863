//! What is shown to peers and what they are asked for: read from files, renewed while connections live on.

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
