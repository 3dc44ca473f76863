//! Conversion of Python arguments to fields of commands.

use headrace_wire::{
    CompressionAlgorithm, Consumer, ConsumerKind, Identifier, NAME_BYTES_MAX, Partitioning,
    PollingStrategy, Status, UserStatus,
};
use pyo3::{prelude::*, pybacked::PyBackedBytes};

use super::error::Fault;

/// A numeric or named identifier.
#[derive(FromPyObject)]
pub(crate) enum Name {
    Number(u32),
    Text(String),
}

impl Name {
    /// Convert without validation, which is left to the encoder.
    pub(crate) fn identifier(&self) -> Identifier<'_> {
        match self {
            Self::Number(id) => Identifier::Numeric(*id),
            Self::Text(name) => Identifier::Named(name),
        }
    }

    /// Validate; the error names the argument.
    pub(super) fn checked(&self, field: &str) -> Result<Identifier<'_>, Fault> {
        if let Self::Text(text) = self {
            name(field, text)?;
        }
        Ok(self.identifier())
    }

    /// Convert to a consumer, or to a group.
    pub(super) fn consumer(&self, is_group: bool) -> Result<Consumer<'_>, Fault> {
        Ok(Consumer {
            kind: if is_group {
                ConsumerKind::Group
            } else {
                ConsumerKind::Consumer
            },
            id: self.checked("consumer")?,
        })
    }
}

/// Validate a text of 1 to 255 bytes.
pub(super) fn name<'a>(field: &str, text: &'a str) -> Result<&'a str, Fault> {
    if text.is_empty() || text.len() > NAME_BYTES_MAX {
        let text = format!(
            "it has {} bytes, 1 to {NAME_BYTES_MAX} are allowed",
            text.len()
        );
        return Err(Fault::value(Status::INVALID_FORMAT, field, text));
    }
    Ok(text)
}

/// Validate a text of at most 255 bytes.
pub(super) fn password<'a>(field: &str, text: &'a str) -> Result<&'a str, Fault> {
    if text.len() > NAME_BYTES_MAX {
        let text = format!("it has {} bytes, {NAME_BYTES_MAX} are allowed", text.len());
        return Err(Fault::value(Status::INVALID_PASSWORD, field, text));
    }
    Ok(text)
}

/// Parse `none` or `gzip`.
pub(super) fn compression_algorithm(text: &str) -> Result<u8, Fault> {
    match text {
        "none" => Ok(CompressionAlgorithm::None.code()),
        "gzip" => Ok(CompressionAlgorithm::Gzip.code()),
        other => Err(unknown("compression", other, "none or gzip")),
    }
}

/// Parse `active` or `inactive`.
pub(super) fn user_status(text: &str) -> Result<u8, Fault> {
    match text {
        "active" => Ok(UserStatus::Active.code()),
        "inactive" => Ok(UserStatus::Inactive.code()),
        other => Err(unknown("status", other, "active or inactive")),
    }
}

/// Parse the start position of a poll.
pub(crate) fn strategy(text: &str, value: u64) -> Result<PollingStrategy, Fault> {
    match text {
        "offset" => Ok(PollingStrategy::Offset(value)),
        "timestamp" => Ok(PollingStrategy::Timestamp(value)),
        "first" => Ok(PollingStrategy::First),
        "last" => Ok(PollingStrategy::Last),
        "next" => Ok(PollingStrategy::Next),
        other => Err(unknown(
            "strategy",
            other,
            "offset, timestamp, first, last or next",
        )),
    }
}

/// Select a partition by number or by key; without either the server balances.
pub(crate) fn partitioning(
    partition: Option<u32>,
    key: Option<&PyBackedBytes>,
) -> Result<Partitioning<'_>, Fault> {
    match (partition, key) {
        (Some(_), Some(_)) => Err(Fault::value(
            Status::INVALID_COMMAND,
            "key",
            "give a partition or a key, not both",
        )),
        (Some(partition), None) => Ok(Partitioning::PartitionId(partition)),
        (None, Some(key)) => messages_key(key),
        (None, None) => Ok(Partitioning::Balanced),
    }
}

/// Validate a key of 1 to 255 bytes.
pub(super) fn messages_key(key: &[u8]) -> Result<Partitioning<'_>, Fault> {
    if key.is_empty() || key.len() > 255 {
        let text = format!("it has {} bytes, 1 to 255 are allowed", key.len());
        return Err(Fault::value(Status::INVALID_KEY_VALUE_LENGTH, "key", text));
    }
    Ok(Partitioning::MessagesKey(key))
}

fn unknown(field: &str, value: &str, allowed: &str) -> Fault {
    Fault::value(
        Status::INVALID_COMMAND,
        field,
        format!("{value:?} is not {allowed}"),
    )
}
