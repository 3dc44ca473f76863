//! What can go wrong between a client and its server.

use std::io;
use std::time::Duration;

use headrace_model::{Offset, PartitionId};
use headrace_wire::{CommandCode, Malformed, Status};

/// Why a request was not answered with success.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection could be made.
    #[error("cannot connect to {address}")]
    Connect {
        /// The address asked for, as given.
        address: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The connection broke. Whether the server executed the request is not known.
    #[error("the connection broke during {}", command.name())]
    Connection {
        /// The request that was under way.
        command: CommandCode,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The server closed the connection, or an earlier request broke it. Connect again.
    #[error("the connection is closed")]
    Disconnected,
    /// The answer did not come in time. The connection cannot be used any more, because the answer may still come.
    #[error("no answer to {} within {timeout:?}", command.name())]
    Timeout {
        /// The request that was under way.
        command: CommandCode,
        /// The limit.
        timeout: Duration,
    },
    /// The server refused the request. The connection stays usable.
    #[error("{} was refused with status {} ({}): {}", command.name(), status.0, status.name().unwrap_or("unknown"),
        explanation.as_deref().unwrap_or(status.description()))]
    Refused {
        /// The request.
        command: CommandCode,
        /// The reason.
        status: Status,
        /// The explanation of the server, if it was asked to explain refusals and knows more than the status.
        explanation: Option<Box<str>>,
    },
    /// What was asked for does not exist.
    #[error("{} found nothing", command.name())]
    NotFound {
        /// The request.
        command: CommandCode,
    },
    /// The answer is not what the protocol says.
    #[error("the answer to {} cannot be decoded", command.name())]
    Malformed {
        /// The request.
        command: CommandCode,
        /// What is wrong with the answer.
        #[source]
        source: Malformed,
    },
    /// The request has no encoding: a name is empty or too long, or the frame exceeds 4 GiB.
    #[error("{} cannot be encoded: {}", command.name(), status.description())]
    Unrepresentable {
        /// The request.
        command: CommandCode,
        /// The status that a server would refuse it with.
        status: Status,
    },
    /// A poll returned what it must not return. Only the load generator checks this, when it is told to.
    #[error("partition {partition_id}, offset {offset}: {reason}")]
    Damaged {
        /// The partition.
        partition_id: PartitionId,
        /// The offset expected or found.
        offset: Offset,
        /// What is wrong.
        reason: &'static str,
    },
    /// A setting makes no sense.
    #[error("{setting}: {reason}")]
    InvalidSetting {
        /// The setting, as it is spelled in JSON.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Something of the local system failed.
    #[error("cannot {action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

impl ClientError {
    /// The status, if it was the server that refused.
    pub const fn status(&self) -> Option<Status> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the connection can still be used.
    pub const fn leaves_connection_usable(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. }
                | Self::NotFound { .. }
                | Self::Unrepresentable { .. }
                | Self::InvalidSetting { .. }
        )
    }
}
