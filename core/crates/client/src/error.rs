//! Errors of a client.

use std::io;
use std::time::Duration;

use headrace_model::{Offset, PartitionId};
use headrace_wire::{CommandCode, Malformed, Status};

/// Reason why a request did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection could not be opened.
    #[error("cannot connect to {address}")]
    Connect {
        /// Address as given.
        address: String,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The connection broke. It is unknown whether the server executed the request.
    #[error("the connection broke during {}", command.name())]
    Connection {
        /// Request that was in flight.
        command: CommandCode,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
    /// The server closed the connection, or an earlier request broke it. A new connection is needed.
    #[error("the connection is closed")]
    Disconnected,
    /// The answer timed out. The connection cannot be used any more, because the answer may still arrive.
    #[error("no answer to {} within {timeout:?}", command.name())]
    Timeout {
        /// Request that was in flight.
        command: CommandCode,
        /// Timeout that expired.
        timeout: Duration,
    },
    /// The server refused the request. The connection stays usable.
    #[error("{} was refused with status {} ({}): {}", command.name(), status.0, status.name().unwrap_or("unknown"),
        explanation.as_deref().unwrap_or(status.description()))]
    Refused {
        /// Refused request.
        command: CommandCode,
        /// Status of the answer.
        status: Status,
        /// Explanation by the server, if explanations are enabled and it has more information than the status.
        explanation: Option<Box<str>>,
    },
    /// The requested object does not exist.
    #[error("{} found nothing", command.name())]
    NotFound {
        /// Request that found nothing.
        command: CommandCode,
    },
    /// The answer violates the protocol.
    #[error("the answer to {} cannot be decoded", command.name())]
    Malformed {
        /// Request with the invalid answer.
        command: CommandCode,
        /// Error of decoding.
        #[source]
        source: Malformed,
    },
    /// The request cannot be encoded: a name is empty or too long, or the frame exceeds 4 GiB.
    #[error("{} cannot be encoded: {}", command.name(), status.description())]
    Unrepresentable {
        /// Request that cannot be encoded.
        command: CommandCode,
        /// Status with which a server would refuse it.
        status: Status,
    },
    /// A poll returned invalid messages. Only checked by the load generator, on request.
    #[error("partition {partition_id}, offset {offset}: {reason}")]
    Damaged {
        /// Polled partition.
        partition_id: PartitionId,
        /// Expected or received offset.
        offset: Offset,
        /// Description of the problem.
        reason: &'static str,
    },
    /// A setting is invalid.
    #[error("{setting}: {reason}")]
    InvalidSetting {
        /// Name of the setting as in JSON.
        setting: &'static str,
        /// Description of the problem.
        reason: String,
    },
    /// A local system call failed.
    #[error("cannot {action}")]
    System {
        /// Action that failed.
        action: &'static str,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
}

impl ClientError {
    /// Status, if the server refused the request.
    pub const fn status(&self) -> Option<Status> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Return whether the connection can still be used.
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
