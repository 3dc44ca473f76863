//! The native module `headrace_core`: converts arguments, releases the GIL, calls the core, maps errors. It contains no
//! logic of its own. `core/python/headrace_core/__init__.pyi` documents it for Python.

#![allow(
    clippy::needless_pass_by_value,
    reason = "arguments of Python calls are converted for the call and belong to it"
)]

mod bench;
mod client;
mod codec;
mod columns;
mod edge;
mod errors;
mod forked;
mod fsck;
mod node;
mod readable;
mod records;
mod replica;
mod session;
mod tables;
mod tickets;
mod traces;
mod watcher;
mod websocket;

use std::num::NonZeroU16;

use headrace_model::{Namespace, PartitionId, StreamId, TopicId};
use pyo3::{exceptions::PyValueError, prelude::*};

/// Compute the shard that owns a partition.
#[pyfunction]
fn owner_shard(stream_id: u32, topic_id: u32, partition_id: u32, shards: u16) -> PyResult<u16> {
    let namespace = Namespace::new(
        StreamId(stream_id),
        TopicId(topic_id),
        PartitionId(partition_id),
    )
    .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let shards = NonZeroU16::new(shards)
        .ok_or_else(|| PyValueError::new_err("there must be at least one shard"))?;
    Ok(headrace_model::owner_shard(namespace, shards).0)
}

/// Have the allocator keep freed memory for reuse.
#[pyfunction]
fn keep_freed_memory() -> bool {
    headrace_runtime::keep_freed_memory()
}

/// Python module `headrace_core`.
#[pymodule]
fn headrace_core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    // Both profiles with assertions are for development; what is shipped has none.
    let profile = if cfg!(debug_assertions) {
        "dev"
    } else {
        "release"
    };
    module.add("build_profile", profile)?;
    errors::register(module)?;
    forked::register(module)?;
    module.add_class::<node::Node>()?;
    module.add_class::<edge::Edge>()?;
    module.add_class::<client::Client>()?;
    module.add_class::<watcher::Watcher>()?;
    module.add_class::<replica::MetadataReplica>()?;
    module.add_function(wrap_pyfunction!(replica::inspect_replica, module)?)?;
    module.add_function(wrap_pyfunction!(fsck::check_partition, module)?)?;
    records::register(module)?;
    codec::register(module)?;
    columns::register(module)?;
    tickets::register(module)?;
    websocket::register(module)?;
    session::register(module)?;
    tables::register(module)?;
    module.add_function(wrap_pyfunction!(owner_shard, module)?)?;
    module.add_function(wrap_pyfunction!(keep_freed_memory, module)?)?;
    module.add_function(wrap_pyfunction!(bench::bench_run, module)?)?;
    module.add_function(wrap_pyfunction!(bench::null_listener, module)?)?;
    Ok(())
}
