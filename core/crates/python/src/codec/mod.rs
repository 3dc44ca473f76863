//! The binary protocol as bytes, for processes with their own connections: commands to payloads, payloads to records,
//! and messages directly from and to JSON, so that no Python code runs per message.
//!
//! This module is independent of HTTP and all other transports.

mod arguments;
mod batch;
mod commands;
mod error;
mod extensions;
mod headers;
mod json_polled;
mod json_send;
mod permissions;
mod quotas;
mod records;
mod responses;
mod transactions;

pub(crate) use arguments::{Name, partitioning, strategy};
pub(crate) use extensions::{Capabilities, Topic as TopicPartitions, WatchedPartition, watch};
pub(crate) use records::{
    ConsumerGroup, ConsumerOffset, PartitionDescription, Stats, Stream, Topic,
    decode_partition_descriptions,
};

use pyo3::prelude::*;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::register(module)?;
    permissions::register(module)?;
    records::register(module)?;
    commands::register(module)?;
    extensions::register(module)?;
    quotas::register(module)?;
    transactions::register(module)?;
    batch::register(module)?;
    headers::register(module)?;
    json_send::register(module)?;
    json_polled::register(module)?;
    responses::register(module)
}
