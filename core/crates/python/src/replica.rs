//! One replica of the metadata group.

use std::{collections::BTreeMap, path::Path, time::Duration};

use headrace_buffer::Slice;
use headrace_replica::{
    NotRunning, Refusal, Release, Replica, ReplicaConfig, ReplicaEvent, RequestKind,
    SessionRequest, StartError, inspect,
};
use pyo3::{
    prelude::*,
    pybacked::{PyBackedBytes, PyBackedStr},
    types::{PyBytes, PyList, PyTuple},
};

use crate::{
    errors::{CoreError, ReplicaError, chain, core_error},
    forked::Home,
};

/// A metadata replica on a native thread: journal, superblock, peers and clock.
#[pyclass(frozen, module = "headrace_core")]
pub(crate) struct MetadataReplica {
    replica: Replica,
    home: Home,
}

#[pymethods]
impl MetadataReplica {
    #[new]
    fn new(config_json: &str) -> PyResult<Self> {
        let config: ReplicaConfig = serde_json::from_str(config_json).map_err(|error| {
            raised(
                "settings",
                format!("the settings of the metadata replica are wrong: {error}"),
            )
        })?;
        Ok(Self {
            replica: Replica::new(config).map_err(|error| start_error(&error))?,
            home: Home::here(),
        })
    }

    /// Lock and open the directory (created if missing), recover, listen to the peers and start the thread.
    fn start(&self, python: Python<'_>) -> PyResult<BTreeMap<&'static str, String>> {
        self.home.check()?;
        let started = python
            .detach(|| self.replica.start())
            .map_err(|error| start_error(&error))?;
        let address = started.address.map(|address| address.to_string());
        Ok(BTreeMap::from([
            ("address", address.unwrap_or_default()),
            ("incarnation", started.incarnation.to_string()),
            ("checkpoint_op", started.checkpoint_op.to_string()),
            ("head_op", started.head_op.to_string()),
        ]))
    }

    /// Descriptor that is readable while events wait.
    fn fileno(&self) -> PyResult<i32> {
        self.home.check()?;
        Ok(self.replica.descriptor())
    }

    /// Take the events since the last call, oldest first.
    fn take<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.home.check()?;
        let events = python.detach(|| self.replica.take_events());
        let events: Vec<_> = events
            .into_iter()
            .map(|event| tuple_of(python, event))
            .collect::<PyResult<_>>()?;
        PyList::new(python, events)
    }

    /// Propose a command to be ordered, replicated and applied; returns its request id.
    ///
    /// The request id, never 0, is the `ticket` of the events about the command.
    fn propose(&self, python: Python<'_>, command: PyBackedBytes) -> PyResult<u64> {
        self.propose_many(python, vec![command], None)
            .map(|tickets| tickets[0])
    }

    /// Propose commands. `since`: for each command the packed version of the release that introduced it; the first
    /// release if not given.
    #[pyo3(signature = (commands, since = None))]
    fn propose_many(
        &self,
        python: Python<'_>,
        commands: Vec<PyBackedBytes>,
        since: Option<Vec<u32>>,
    ) -> PyResult<Vec<u64>> {
        self.home.check()?;
        let count = commands.len() as u64;
        let since = since.unwrap_or_else(|| vec![Release::FIRST.0; commands.len()]);
        if since.len() != commands.len() {
            return Err(CoreError::new_err("each command has one release"));
        }
        let commands = since.into_iter().map(Release).zip(slices(&commands));
        let first = python
            .detach(|| self.replica.propose(commands.collect()))
            .map_err(|error| not_running(&error))?;
        Ok((first..first + count).collect())
    }

    /// Execute requests of sessions, each at most once however often it is sent; returns their request ids.
    fn request_many(
        &self,
        python: Python<'_>,
        requests: Vec<(u128, u64, u64, PyBackedStr, u32, PyBackedBytes)>,
    ) -> PyResult<Vec<u64>> {
        self.home.check()?;
        let count = requests.len() as u64;
        let requests = requests
            .into_iter()
            .map(|(client, session, number, kind, since, command)| {
                Ok(SessionRequest {
                    client,
                    session,
                    number,
                    kind: request_kind(&kind)?,
                    min_release: Release(since),
                    command: slice(&command),
                })
            })
            .collect::<PyResult<_>>()?;
        let first = python
            .detach(|| self.replica.request(requests))
            .map_err(|error| not_running(&error))?;
        Ok((first..first + count).collect())
    }

    /// Request the op that a linearizable read has to see; returns the request id of the `read` event.
    fn read_index(&self) -> PyResult<u64> {
        self.home.check()?;
        self.replica
            .read_index()
            .map_err(|error| not_running(&error))
    }

    /// Answer an `apply`, with one reply for each of its commands.
    fn applied(&self, python: Python<'_>, op: u64, replies: Vec<PyBackedBytes>) -> PyResult<()> {
        self.home.check()?;
        python.detach(|| self.replica.applied(op, slices(&replies)));
        Ok(())
    }

    /// Answer a `checkpoint`.
    fn checkpoint(&self, python: Python<'_>, op: u64, state: PyBackedBytes) -> PyResult<()> {
        self.home.check()?;
        python.detach(|| self.replica.checkpoint(op, slice(&state)));
        Ok(())
    }

    /// Answer a `restore`.
    fn restored(&self, op: u64) -> PyResult<()> {
        self.home.check()?;
        self.replica.restored(op);
        Ok(())
    }

    /// Trigger a view change if this replica is the primary. Used before a planned stop.
    fn abdicate(&self) -> PyResult<()> {
        self.home.check()?;
        self.replica.abdicate();
        Ok(())
    }

    /// Check the certificate files. Returns whether new ones are used for connections with peers from now on.
    ///
    /// Raises `ReplicaError` if the files cannot be used, once for each content of the files.
    fn renew_certificates(&self, python: Python<'_>) -> PyResult<bool> {
        self.home.check()?;
        python
            .detach(|| self.replica.reload_certificates())
            .map_err(|error| start_error(&error))
    }

    /// Status as a JSON object: role, view, primary, ops, journal, peers with their connections, counters.
    ///
    /// Fields of `ReplicaStatus` in core/crates/replica/src/status.rs. Also works after the replica has stopped.
    fn status_json(&self) -> PyResult<String> {
        self.home.check()?;
        serde_json::to_string(&self.replica.status()).map_err(|error| core_error(&error))
    }

    /// Commit nothing more, make all written data durable, mark the directory as cleanly closed and release it.
    ///
    /// `False`: the thread did not end in time; the directory stays locked until it does. Later calls do nothing.
    #[pyo3(signature = (timeout_seconds = 10.0))]
    fn stop(&self, python: Python<'_>, timeout_seconds: f64) -> PyResult<bool> {
        self.home.check()?;
        let timeout = Duration::try_from_secs_f64(timeout_seconds)
            .map_err(|error| CoreError::new_err(format!("timeout_seconds: {error}")))?;
        Ok(python.detach(|| self.replica.stop(timeout)))
    }
}

#[pyfunction]
#[pyo3(signature = (directory, first_op = 0, limit = 100))]
pub(crate) fn inspect_replica(
    python: Python<'_>,
    directory: &str,
    first_op: u64,
    limit: usize,
) -> PyResult<String> {
    let report = python
        .detach(|| inspect(Path::new(directory), first_op, limit))
        .map_err(|error| start_error(&error))?;
    serde_json::to_string(&report).map_err(|error| core_error(&error))
}

fn tuple_of(python: Python<'_>, event: ReplicaEvent) -> PyResult<Bound<'_, PyTuple>> {
    match event {
        ReplicaEvent::Restore { op, state } => {
            ("restore", op, PyBytes::new(python, &state)).into_pyobject(python)
        }
        ReplicaEvent::Apply {
            op,
            timestamp_ns,
            commands,
        } => {
            let commands = commands
                .into_iter()
                .map(|(ticket, command)| (ticket, PyBytes::new(python, &command)));
            let commands = PyList::new(python, commands.collect::<Vec<_>>())?;
            ("apply", op, timestamp_ns, commands).into_pyobject(python)
        }
        ReplicaEvent::Checkpoint { op } => ("checkpoint", op).into_pyobject(python),
        ReplicaEvent::Refused { ticket, refusal } => {
            let primary = match refusal {
                Refusal::NotPrimary(Some(primary)) => i16::from(primary),
                _ => -1,
            };
            ("refused", ticket, refusal.name(), primary).into_pyobject(python)
        }
        ReplicaEvent::RequestCompleted {
            request_id: ticket,
            session,
            reply,
        } => {
            let reply = PyBytes::new(python, &reply);
            ("answered", ticket, session, reply).into_pyobject(python)
        }
        ReplicaEvent::Read { ticket, op } => ("read", ticket, op).into_pyobject(python),
        ReplicaEvent::Role {
            role,
            view,
            primary,
        } => {
            let primary = primary.map_or(-1, i16::from);
            ("role", role.name(), view, primary).into_pyobject(python)
        }
        ReplicaEvent::Log { level, message } => {
            ("log", level.name(), message).into_pyobject(python)
        }
        ReplicaEvent::Stopped { reason } => ("stopped", reason).into_pyobject(python),
    }
}

fn request_kind(name: &str) -> PyResult<RequestKind> {
    match name {
        "open" => Ok(RequestKind::Open),
        "propose" => Ok(RequestKind::Propose),
        "close" => Ok(RequestKind::Close),
        _ => Err(CoreError::new_err(format!(
            "a session is not asked to {name}"
        ))),
    }
}

fn slice(bytes: &PyBackedBytes) -> Slice {
    // A copy: the bytes outlive the call on another thread, which must not need the interpreter to free them.
    Slice::from_vec(bytes.to_vec())
}

fn slices(bytes: &[PyBackedBytes]) -> Vec<Slice> {
    bytes.iter().map(slice).collect()
}

fn start_error(error: &StartError) -> PyErr {
    raised(error.reason(), chain(error))
}

fn not_running(error: &NotRunning) -> PyErr {
    raised("stopped", error.to_string())
}

fn raised(reason: &'static str, text: String) -> PyErr {
    let raised = ReplicaError::new_err(text);
    Python::attach(|python| raised.value(python).setattr("reason", reason))
        .map_or_else(|failure| failure, |()| raised)
}
