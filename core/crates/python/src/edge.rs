//! The encrypted listeners in front of a node, and its encrypted links.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use headrace_edge::{Edge as NativeEdge, EdgeConfig, Shards};
use pyo3::prelude::*;

use crate::{
    errors::{CoreError, StartError, core_error, start_error},
    forked::Home,
    node::Node,
};

/// TLS listeners for TCP and WebSocket, the QUIC listener, and TLS for links to partition nodes.
#[pyclass(frozen, module = "headrace_core")]
pub(crate) struct Edge {
    pub(crate) edge: NativeEdge,
    home: Home,
}

#[pymethods]
impl Edge {
    #[new]
    fn new(python: Python<'_>, config_json: &str) -> PyResult<Self> {
        let config: EdgeConfig = serde_json::from_str(config_json).map_err(|error| {
            StartError::new_err(format!(
                "the settings of the listeners are invalid: {error}"
            ))
        })?;
        let edge = python
            .detach(|| NativeEdge::bind(config))
            .map_err(|error| start_error(&error))?;
        Ok(Self {
            edge,
            home: Home::here(),
        })
    }

    /// Bound address per listener (`tcp`, `websocket`, `quic`, `binary`).
    fn addresses(&self) -> BTreeMap<&'static str, String> {
        let bound = self.edge.bound();
        let listeners = [
            ("tcp", bound.tcp),
            ("websocket", bound.websocket),
            ("quic", bound.quic),
            ("binary", bound.binary),
        ];
        let bound = listeners
            .into_iter()
            .filter_map(|(listener, address)| Some((listener, address?.to_string())));
        bound.collect()
    }

    /// Accept clients, to be served by `node`.
    fn start(&self, python: Python<'_>, node: &Bound<'_, Node>) -> PyResult<()> {
        self.home.check()?;
        let shards: Arc<dyn Shards> = Arc::clone(&node.get().node) as _;
        python
            .detach(|| self.edge.start(&shards))
            .map_err(|error| start_error(&error))
    }

    /// Check the certificate files now; the result is reported by `take_events`.
    fn reload_certificates(&self, python: Python<'_>) -> PyResult<()> {
        self.home.check()?;
        python.detach(|| self.edge.reload_certificates());
        Ok(())
    }

    /// Take the log events, in the form of `Node.take_events`.
    fn take_events(&self) -> PyResult<Vec<(&'static str, String)>> {
        self.home.check()?;
        let events = self.edge.take_events();
        Ok(events
            .into_iter()
            .map(|event| (event.level.name(), event.message))
            .collect())
    }

    /// Counters as a JSON object, per listener and for `links`: connections, handshakes, failures, bytes.
    fn stats_json(&self, python: Python<'_>) -> PyResult<String> {
        self.home.check()?;
        python
            .detach(|| serde_json::to_string(&self.edge.report()))
            .map_err(|error| core_error(&error))
    }

    /// Stop accepting connections; open connections stay.
    fn close_listeners(&self, python: Python<'_>) -> PyResult<()> {
        self.home.check()?;
        python.detach(|| self.edge.close_listeners());
        Ok(())
    }

    /// Wait for the last connections to end, and end the threads. `False`: some were cut off after the timeout.
    #[pyo3(signature = (timeout_seconds = 5.0))]
    fn stop(&self, python: Python<'_>, timeout_seconds: f64) -> PyResult<bool> {
        self.home.check()?;
        let timeout = Duration::try_from_secs_f64(timeout_seconds)
            .map_err(|error| CoreError::new_err(format!("timeout_seconds: {error}")))?;
        Ok(python.detach(|| self.edge.stop(timeout)))
    }
}
