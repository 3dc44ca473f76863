//! Reasons why a replica does not start.

use std::{io, path::PathBuf};

use thiserror::Error;

/// Advice for the operator about a data directory that has lost data.
///
/// With peers, never restore a backup: the copy is consistent, but lacks what this replica has acknowledged since.
pub(crate) const REPLACE_DATA_DIRECTORY: &str = "Nothing was changed. With intact peers, move the directory away and start with an \
                                         empty one; do not put an older copy in its place, which has forgotten what was \
                                         acknowledged since. A replica that is alone: restore the directory from a backup";

/// Refusal to start. The text describes the problem and the remedy.
#[derive(Debug, Error)]
pub enum StartError {
    /// A setting is invalid.
    #[error("the settings of the metadata replica are invalid: {0}")]
    Settings(String),
    /// Another process uses the data directory.
    #[error(
        "{data_directory} is used by another process; every replica needs a directory of its own"
    )]
    DirectoryInUse {
        /// Data directory of the replica.
        data_directory: PathBuf,
    },
    /// The data directory belongs to a replica of another cluster.
    #[error(
        "{directory} belongs to another cluster than {cluster:?}: check the name of the cluster, or use another directory"
    )]
    OtherCluster {
        /// Data directory of the replica.
        directory: PathBuf,
        /// Cluster name in the settings.
        cluster: String,
    },
    /// The data directory belongs to another replica of this cluster.
    #[error(
        "{directory} belongs to replica {found} of {found_of}, and the settings say replica {replica} of {replicas}: \
         use the directory of that replica"
    )]
    OtherReplica {
        /// Data directory of the replica.
        directory: PathBuf,
        /// Index in the superblock.
        found: u8,
        /// Number of members in the superblock.
        found_of: u8,
        /// Index in the settings.
        replica: u8,
        /// Number of members in the settings.
        replicas: u8,
    },
    /// Durable data is missing or altered, and a start would hide the loss.
    #[error("{path}: {finding}. {advice}")]
    Damaged {
        /// File concerned.
        path: PathBuf,
        /// Finding.
        finding: String,
        /// Advice for the operator.
        advice: &'static str,
    },
    /// The files need a newer release.
    #[error("{path} {why}: run that release, or a newer one")]
    NewerRelease {
        /// File concerned.
        path: PathBuf,
        /// Finding.
        why: String,
    },
    /// The files were written by a release whose format is no longer supported.
    #[error(
        "{path} {why}: run the release that wrote it, or one between it and this one that reads both"
    )]
    OlderRelease {
        /// File concerned.
        path: PathBuf,
        /// Finding.
        why: String,
    },
    /// Reading or writing failed.
    #[error("{path}: cannot {action}")]
    Storage {
        /// Action that failed.
        action: &'static str,
        /// File or directory concerned.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The listener for peers cannot be opened.
    #[error("cannot listen on {address} for the other replicas")]
    Address {
        /// Address of the listener.
        address: String,
        /// Cause of the failure.
        source: io::Error,
    },
}

impl StartError {
    /// Short name of the reason for programs.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Settings(_) => "settings",
            Self::DirectoryInUse { .. } => "directory_in_use",
            Self::OtherCluster { .. } => "other_cluster",
            Self::OtherReplica { .. } => "other_replica",
            Self::Damaged { .. } => "damaged",
            Self::NewerRelease { .. } => "newer_release",
            Self::OlderRelease { .. } => "older_release",
            Self::Storage { .. } => "storage",
            Self::Address { .. } => "address",
        }
    }

    pub(crate) fn storage(action: &'static str, path: &std::path::Path, source: io::Error) -> Self {
        Self::Storage {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
