//! The node: shards, partitions and the binary protocol's listeners of this process.

use std::{collections::BTreeMap, os::fd::IntoRawFd, sync::Arc, time::Duration};

use headrace_model::{StreamId, Timestamp, TopicId, UserId};
use headrace_proto::{catalog::v1 as catalog, control::v1 as control};
use headrace_runtime::{Node as NativeNode, NodeConfig};
use headrace_ticket::{Access, Issuer};
use prost::Message;
use pyo3::{
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyBytes, PyList},
};

use crate::{
    edge::Edge,
    errors::{CoreError, StartError, core_error, start_error},
    forked::Home,
};

/// The data plane of a process: shards, their partitions, and the listeners of the binary protocol.
#[pyclass(frozen, module = "headrace_core")]
pub(crate) struct Node {
    /// Shared with the encrypted listeners that pass connections to it.
    pub(crate) node: Arc<NativeNode>,
    home: Home,
}

#[pymethods]
impl Node {
    #[new]
    #[pyo3(signature = (config_json, edge = None))]
    fn new(config_json: &str, edge: Option<&Bound<'_, Edge>>) -> PyResult<Self> {
        let config: NodeConfig = serde_json::from_str(config_json).map_err(|error| {
            StartError::new_err(format!("the settings of the node are wrong: {error}"))
        })?;
        let mut node = NativeNode::new(config).map_err(|error| start_error(&error))?;
        if let Some(connector) = edge.and_then(|edge| edge.get().edge.connector()) {
            node = node.with_connector(connector);
        }
        Ok(Self {
            node: Arc::new(node),
            home: Home::here(),
        })
    }

    /// Set the identity of the catalogs that will be published, as 32 hexadecimal digits; before `start`.
    ///
    /// Directories of partitions that belong to another catalog are not opened.
    fn identify_catalog(&self, identity: &str) -> PyResult<()> {
        self.home.check()?;
        let identity = u128::from_str_radix(identity, 16).map_err(|error| {
            StartError::new_err(format!(
                "{identity:?} is not the identity of a catalog: {error}"
            ))
        })?;
        self.node.identify_catalog(identity);
        Ok(())
    }

    /// Publish a complete catalog (`headrace.catalog.v1.Snapshot`); returns its version.
    fn publish_snapshot(&self, python: Python<'_>, snapshot: PyBackedBytes) -> PyResult<u64> {
        self.home.check()?;
        python.detach(|| {
            let snapshot =
                catalog::Snapshot::decode(&*snapshot).map_err(|error| core_error(&error))?;
            self.node
                .publish_snapshot(&snapshot)
                .map_err(|error| core_error(&error))
        })
    }

    /// Publish the next version of the catalog (`headrace.catalog.v1.Update`); returns its version.
    ///
    /// When this returns, every shard uses the new version.
    fn publish_update(&self, python: Python<'_>, update: PyBackedBytes) -> PyResult<u64> {
        self.home.check()?;
        python.detach(|| {
            let update = catalog::Update::decode(&*update).map_err(|error| core_error(&error))?;
            self.node
                .publish_update(&update)
                .map_err(|error| core_error(&error))
        })
    }

    /// Report the time of the metadata service up to which the last published catalog has all changes.
    ///
    /// Staged batches that had expired at that time and that the catalog does not name are dropped: no commit can
    /// contain them any more.
    fn pass_stage_horizon(&self, python: Python<'_>, horizon_micros: u64) -> PyResult<()> {
        self.home.check()?;
        python.detach(|| self.node.pass_stage_horizon(Timestamp(horizon_micros)));
        Ok(())
    }

    /// Bind the address, start the shard threads and open the partitions of the catalog.
    fn start(&self, python: Python<'_>) -> PyResult<BTreeMap<&'static str, String>> {
        self.home.check()?;
        let started = python
            .detach(|| self.node.start())
            .map_err(|error| start_error(&error))?;
        Ok(BTreeMap::from([
            ("driver", started.driver),
            ("driver_reason", started.driver_reason),
            ("shards", started.shards.to_string()),
            (
                "tcp_address",
                started
                    .tcp_address
                    .map(|address| address.to_string())
                    .unwrap_or_default(),
            ),
            (
                "websocket_address",
                started
                    .websocket_address
                    .map(|address| address.to_string())
                    .unwrap_or_default(),
            ),
        ]))
    }

    /// Number of partitions owned by the shards, and the number of those that still recover.
    fn recovery(&self) -> PyResult<(usize, usize)> {
        self.home.check()?;
        Ok(self.node.recovery())
    }

    /// Partitions that closed themselves after a failure: `stream/topic/partition` and the reason.
    fn failures(&self) -> PyResult<Vec<(String, String)>> {
        self.home.check()?;
        let failures = self.node.failures();
        Ok(failures
            .into_iter()
            .map(|(namespace, reason)| (namespace.to_string(), reason))
            .collect())
    }

    /// Runs of partition nodes that were tried: id of the node, incarnation, and whether it is reached.
    fn contacts(&self) -> PyResult<Vec<(u32, u64, bool)>> {
        self.home.check()?;
        let contacts = self.node.contacts();
        Ok(contacts
            .into_iter()
            .map(|((node, incarnation), is_reached)| (node.0, incarnation, is_reached))
            .collect())
    }

    /// Start to accept connections.
    fn listen(&self, python: Python<'_>) -> PyResult<()> {
        self.home.check()?;
        python
            .detach(|| self.node.listen())
            .map_err(|error| core_error(&error))
    }

    /// Open a connection on which a user is logged in. Returns the descriptor of the client's end, which the caller
    /// must close.
    #[pyo3(signature = (user_id, address=None, interface=0))]
    fn open_session(
        &self,
        python: Python<'_>,
        user_id: u32,
        address: Option<&str>,
        interface: u8,
    ) -> PyResult<i32> {
        self.home.check()?;
        // An address that cannot be parsed is treated as unknown.
        let caller = address
            .and_then(|address| address.parse().ok())
            .map(|address| (address, interface));
        python
            .detach(|| self.node.open_session(UserId(user_id), caller))
            .map(IntoRawFd::into_raw_fd)
            .map_err(|error| core_error(&error))
    }

    /// Return whether the ticket's issuer, as in the ticket, still has this access to a topic.
    fn issuer_may(
        &self,
        issuer: (u32, u64, u64),
        topic: (u32, u32),
        read: bool,
        write: bool,
    ) -> PyResult<bool> {
        self.home.check()?;
        let (user, password_version, token) = issuer;
        let issuer = Issuer {
            user: UserId(user),
            password_version,
            token,
        };
        let topic = (StreamId(topic.0), TopicId(topic.1));
        Ok(self.node.issuer_may(issuer, topic, Access { read, write }))
    }

    /// Descriptor that is readable while control requests wait: register it with the event loop.
    fn fileno(&self) -> PyResult<i32> {
        self.home.check()?;
        Ok(self.node.descriptor())
    }

    /// Take the control requests that arrived: identifier and `headrace.control.v1.Request`.
    fn take_requests<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.home.check()?;
        let requests = python.detach(|| {
            let taken = self.node.take_requests().into_iter();
            taken
                .map(|waiting| (waiting.id, waiting.request.encode_to_vec()))
                .collect::<Vec<_>>()
        });
        PyList::new(
            python,
            requests
                .into_iter()
                .map(|(id, request)| (id, PyBytes::new(python, &request))),
        )
    }

    /// Answer a control request with a `headrace.control.v1.Reply`. A second answer is ignored.
    fn reply(&self, python: Python<'_>, request_id: u64, reply: PyBackedBytes) -> PyResult<()> {
        self.home.check()?;
        python.detach(|| {
            let reply = control::Reply::decode(&*reply).map_err(|error| core_error(&error))?;
            self.node.reply(request_id, reply);
            Ok(())
        })
    }

    /// Take the log events since the last call: level (`info`, `warning`, `error`) and message.
    fn take_events(&self) -> PyResult<Vec<(&'static str, String)>> {
        self.home.check()?;
        let events = self.node.take_events();
        Ok(events
            .into_iter()
            .map(|event| (event.level.name(), event.message))
            .collect())
    }

    /// Counters as a JSON object: connections, pool, mailboxes, driver, partitions, commands.
    fn stats_json(&self, python: Python<'_>) -> PyResult<String> {
        self.home.check()?;
        python
            .detach(|| serde_json::to_string(&self.node.report()))
            .map_err(|error| core_error(&error))
    }

    /// Take the trace records: the tuples are documented in the stub of the module.
    fn take_traces<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.home.check()?;
        let records = python.detach(|| self.node.take_traces());
        let tuples: PyResult<Vec<_>> = (records.iter())
            .map(|record| crate::traces::tuple(python, record))
            .collect();
        PyList::new(python, tuples?)
    }

    /// Shut down: answer requests in flight, flush, sync and close. `False`: forced after the timeout.
    ///
    /// The timeout is that of the answers; partitions have 10 s more to write and close.
    #[pyo3(signature = (timeout_seconds = 30.0))]
    fn stop(&self, python: Python<'_>, timeout_seconds: f64) -> PyResult<bool> {
        self.home.check()?;
        let timeout = Duration::try_from_secs_f64(timeout_seconds)
            .map_err(|error| CoreError::new_err(format!("timeout_seconds: {error}")))?;
        Ok(python.detach(|| self.node.stop(timeout)))
    }
}
