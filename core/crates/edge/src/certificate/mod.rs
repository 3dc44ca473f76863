//! What the doors show and what they ask for: read from files, renewed while connections live on.

mod clients;
mod facts;
mod problem;
mod read;
mod renewal;

pub use clients::ClientCertificates;
pub(crate) use clients::Users;
pub use problem::CertificateProblem;
pub(crate) use read::{Identity, Purpose};
pub(crate) use renewal::Renewal;
