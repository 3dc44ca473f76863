//! Why a replica does not start.

use std::{io, path::PathBuf};

use thiserror::Error;

/// What to do about a folder that has lost something.
///
/// With peers never a copy from a backup: it is whole, and has forgotten what this replica acknowledged since.
pub(crate) const REPLACE_FOLDER: &str = "Nothing was changed. With peers that are whole, move the folder away and start with an \
                                         empty one; do not put an older copy in its place, which has forgotten what was \
                                         acknowledged since. A replica that is alone: restore the folder from a backup";

/// A refusal to start. The text says what is wrong and what to do.
#[derive(Debug, Error)]
pub enum StartError {
    /// A setting is wrong.
    #[error("the settings of the metadata replica are wrong: {0}")]
    Settings(String),
    /// Another process works in the folder.
    #[error("{folder} is used by another process; every replica needs a folder of its own")]
    FolderInUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder belongs to a replica of another cluster.
    #[error(
        "{folder} belongs to another cluster than {cluster:?}: check the name of the cluster, or use another folder"
    )]
    OtherCluster {
        /// The folder.
        folder: PathBuf,
        /// The name in the settings.
        cluster: String,
    },
    /// The folder belongs to another replica of this cluster.
    #[error(
        "{folder} belongs to replica {found} of {found_of}, and the settings say replica {replica} of {replicas}: \
         use the folder of that replica"
    )]
    OtherReplica {
        /// The folder.
        folder: PathBuf,
        /// Index in the superblock.
        found: u8,
        /// Members in the superblock.
        found_of: u8,
        /// Index in the settings.
        replica: u8,
        /// Members in the settings.
        replicas: u8,
    },
    /// What was durable is missing or altered, and starting would hide it.
    #[error("{path}: {why}. {advice}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
        /// What to do.
        advice: &'static str,
    },
    /// The files need a newer release.
    #[error("{path} {why}: run that release, or a newer one")]
    NewerRelease {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// The files were written by a release whose form is not read any more.
    #[error(
        "{path} {why}: run the release that wrote it, or one between it and this one that reads both"
    )]
    OlderRelease {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// Reading or writing failed.
    #[error("{path}: cannot {action}")]
    Storage {
        /// What was being done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The address for the peers cannot be listened on.
    #[error("cannot listen on {address} for the other replicas")]
    Address {
        /// The address.
        address: String,
        /// The reason.
        source: io::Error,
    },
}

impl StartError {
    /// A word for programs.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Settings(_) => "settings",
            Self::FolderInUse { .. } => "folder_in_use",
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
