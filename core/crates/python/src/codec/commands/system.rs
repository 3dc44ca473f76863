//! Server, connections, diagnostics.

use headrace_wire::{
    Command,
    command::{DisconnectClient, GetClient, GetSnapshot},
};
use pyo3::prelude::*;

use super::{Encoded, encoded, plain};

plain! {
    encode_ping => Ping;
    encode_get_stats => GetStats;
    encode_get_cluster_metadata => GetClusterMetadata;
    encode_get_me => GetMe;
    encode_get_clients => GetClients;
}

#[pyfunction]
#[pyo3(signature = (*, client_id))]
fn encode_get_client(python: Python<'_>, client_id: u32) -> PyResult<Encoded<'_>> {
    encoded(python, &Command::GetClient(GetClient { client_id }))
}

#[pyfunction]
#[pyo3(signature = (*, client_id))]
fn encode_disconnect_client(python: Python<'_>, client_id: u32) -> PyResult<Encoded<'_>> {
    encoded(
        python,
        &Command::DisconnectClient(DisconnectClient { client_id }),
    )
}

#[pyfunction]
#[pyo3(signature = (*, compression, kinds))]
fn encode_get_snapshot(
    python: Python<'_>,
    compression: u8,
    kinds: Vec<u8>,
) -> PyResult<Encoded<'_>> {
    let command = GetSnapshot {
        compression_code: compression,
        kind_codes: &kinds,
    };
    encoded(python, &Command::GetSnapshot(command))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_ping, module)?)?;
    module.add_function(wrap_pyfunction!(encode_get_stats, module)?)?;
    module.add_function(wrap_pyfunction!(encode_get_cluster_metadata, module)?)?;
    module.add_function(wrap_pyfunction!(encode_get_me, module)?)?;
    module.add_function(wrap_pyfunction!(encode_get_clients, module)?)?;
    module.add_function(wrap_pyfunction!(encode_get_client, module)?)?;
    module.add_function(wrap_pyfunction!(encode_disconnect_client, module)?)?;
    module.add_function(wrap_pyfunction!(encode_get_snapshot, module)?)
}
