//! Messages that are sent to any topic at once, and answered one by one.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use headrace_engine::{
    Requester, SessionSettings,
    session::{DirectBatch, PushRefused, Repeat, Request},
};
use headrace_wire::message::HEADER_BYTES;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    pybacked::{PyBackedBytes, PyBackedStr},
    types::{PyDict, PyList},
};

use super::{
    deliveries::{Deliveries, Parts},
    failures::{push_error, request_error, used_after_fork},
    headers,
    pending::Pending,
    producer::{owned, place},
    requester::engine,
    settings::{SessionConfig, seconds},
};
use crate::{codec::Name, forked::ForkGuard};

/// A producer without a topic, over one connection.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct DirectProducer {
    session: ForkGuard<Mutex<Option<Requester>>>,
    /// Result of the first attempt to connect and log in: None.
    opened: Pending,
    batch_bytes: usize,
    timeout: Duration,
    stores_key: bool,
}

#[derive(FromPyObject)]
enum Key {
    Bytes(PyBackedBytes),
    Text(PyBackedStr),
}

impl Key {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }
}

/// Headers of a message: encoded already, with the key if there is one, or by name.
#[derive(FromPyObject)]
enum Headers<'py> {
    Encoded(PyBackedBytes),
    Named(Bound<'py, PyDict>),
}

/// Payload, key, partition, headers and id.
type Message<'py> = (
    PyBackedBytes,
    Option<Key>,
    Option<u32>,
    Option<Headers<'py>>,
    u128,
);

/// Partition, number of messages, and answer.
type StageRequest = (u32, u32, Pending);

#[pymethods]
impl DirectProducer {
    #[new]
    #[pyo3(signature = (config, *, batch_bytes, delivery_timeout, stores_key))]
    fn new(
        config: &SessionConfig,
        batch_bytes: usize,
        delivery_timeout: f64,
        stores_key: bool,
    ) -> PyResult<Self> {
        let settings = SessionSettings {
            reports_offsets: true,
            first_rounds: u32::MAX,
            ..(*config.0).clone()
        };
        let requester = Requester::new(&engine()?, settings.into());
        Ok(Self {
            opened: Pending::new(requester.opened()),
            session: ForkGuard::new(Mutex::new(Some(requester))),
            batch_bytes,
            timeout: seconds("delivery_timeout", delivery_timeout)?,
            stores_key,
        })
    }

    /// Result of the first attempt to connect and log in: None.
    fn opened(&self) -> Pending {
        self.opened.clone()
    }

    /// Submit a request that changes nothing.
    fn submit(&self, code: u32, payload: &[u8]) -> PyResult<Pending> {
        let request = Request::encoded(code, payload, Repeat::Always);
        let request = request.map_err(|error| request_error(&error))?;
        let request = request.within(self.timeout);
        self.with(|requester| Pending::new(requester.submit(request)))
    }

    /// Send payloads from `start` on, as many as fit a batch. Returns their number and their results.
    #[expect(clippy::too_many_arguments, reason = "arguments by name")]
    #[pyo3(signature = (
        stream, topic, payloads, start, *, partitions_count, turn, partition = None, key = None, headers = None
    ))]
    fn push_many(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
        payloads: &Bound<'_, PyList>,
        start: usize,
        partitions_count: u32,
        turn: u32,
        partition: Option<u32>,
        key: Option<PyBackedBytes>,
        headers: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(usize, Deliveries)> {
        let mut encoded = Vec::new();
        let key: Option<&[u8]> = key.as_deref();
        headers::encode(key.filter(|_| self.stores_key), headers, &mut encoded)?;
        let mut batch = DirectBatch::new(partitions_count, turn, self.batch_bytes);
        let place = place(partition, key);
        // Only what this batch has room for is converted: a long list is sent as many batches.
        let (mut some, mut bytes) = (Vec::<PyBackedBytes>::new(), 0);
        while bytes <= self.batch_bytes && start + some.len() < payloads.len() {
            let payload: PyBackedBytes = payloads.get_item(start + some.len())?.extract()?;
            bytes += HEADER_BYTES + payload.len() + encoded.len();
            some.push(payload);
        }
        let (taken, refused) = python.detach(|| {
            let now = micros_since_epoch();
            for (taken, payload) in some.iter().enumerate() {
                if let Err(refused) = batch.push(place, 0, now, payload, &encoded) {
                    return (taken, Some(refused));
                }
            }
            (some.len(), None)
        });
        self.send(stream, topic, batch, taken, refused)
    }

    /// Send messages with properties of their own, as `push_many`.
    #[pyo3(signature = (stream, topic, messages, start, *, partitions_count, turn))]
    fn push_each(
        &self,
        stream: Name,
        topic: Name,
        messages: &Bound<'_, PyList>,
        start: usize,
        partitions_count: u32,
        turn: u32,
    ) -> PyResult<(usize, Deliveries)> {
        let (batch, taken, refused) = self.batch_each(messages, start, partitions_count, turn)?;
        self.send(stream, topic, batch, taken, refused)
    }

    /// Store messages with properties of their own in stages, as many as fit a batch. Returns their number, and of each
    /// stage partition, number of messages, and answer.
    #[expect(clippy::too_many_arguments, reason = "arguments by name")]
    #[pyo3(signature = (stream, topic, messages, start, *, partitions_count, turn, lifetime_seconds))]
    fn stage_each(
        &self,
        stream: Name,
        topic: Name,
        messages: &Bound<'_, PyList>,
        start: usize,
        partitions_count: u32,
        turn: u32,
        lifetime_seconds: u32,
    ) -> PyResult<(usize, Vec<StageRequest>)> {
        let (batch, taken, refused) = self.batch_each(messages, start, partitions_count, turn)?;
        if let Some(refused) = refused.filter(|refused| *refused != PushRefused::BufferFull) {
            return Err(push_error(&refused));
        }
        let (stream, topic) = (owned("stream", &stream)?, owned("topic", &topic)?);
        let answers = self.with(|requester| {
            requester.stage(batch, &stream, &topic, self.timeout, lifetime_seconds)
        })?;
        let requests = answers
            .into_iter()
            .map(|(partition, count, answer)| (partition, count, Pending::new(answer)));
        Ok((taken, requests.collect()))
    }

    /// End the session; messages without an answer fail.
    fn close(&self) {
        if let Ok(session) = self.session.get() {
            drop(
                session
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(),
            );
        }
    }
}

impl DirectProducer {
    fn with<T>(&self, work: impl FnOnce(&Requester) -> T) -> PyResult<T> {
        let session = self.session.get().map_err(used_after_fork)?;
        let session = session.lock().unwrap_or_else(PoisonError::into_inner);
        let requester = session
            .as_ref()
            .ok_or_else(|| push_error(&PushRefused::Closed))?;
        Ok(work(requester))
    }

    /// Take messages from `start` on, as many as fit a batch. Returns their number, and why the next one does not fit.
    fn batch_each(
        &self,
        messages: &Bound<'_, PyList>,
        start: usize,
        partitions_count: u32,
        turn: u32,
    ) -> PyResult<(DirectBatch, usize, Option<PushRefused>)> {
        let mut batch = DirectBatch::new(partitions_count, turn, self.batch_bytes);
        let now = micros_since_epoch();
        let (mut taken, mut refused) = (0, None);
        let mut encoded = Vec::new();
        while start + taken < messages.len() {
            let message = messages.get_item(start + taken)?;
            let (payload, key, partition, headers, id): Message<'_> = message
                .extract()
                .map_err(|error| PyTypeError::new_err(format!("messages: {error}")))?;
            let key = key.as_ref().map(Key::as_bytes);
            encoded.clear();
            let stored = key.filter(|_| self.stores_key);
            match &headers {
                Some(Headers::Encoded(given)) => {
                    let stored = stored.filter(|_| headers::key_of(given).is_none());
                    headers::encode(stored, None, &mut encoded)?;
                    encoded.extend_from_slice(given);
                }
                Some(Headers::Named(given)) => {
                    headers::encode(stored, Some(given), &mut encoded)?;
                }
                None => headers::encode(stored, None, &mut encoded)?,
            }
            let place = place(partition, key);
            if let Err(problem) = batch.push(place, id, now, &payload, &encoded) {
                refused = Some(problem);
                break;
            }
            taken += 1;
        }
        Ok((batch, taken, refused))
    }

    fn send(
        &self,
        stream: Name,
        topic: Name,
        batch: DirectBatch,
        taken: usize,
        refused: Option<PushRefused>,
    ) -> PyResult<(usize, Deliveries)> {
        if let Some(refused) = refused.filter(|refused| *refused != PushRefused::BufferFull) {
            return Err(push_error(&refused));
        }
        let (stream, topic) = (owned("stream", &stream)?, owned("topic", &topic)?);
        let sent = self.with(|requester| requester.send(batch, &stream, &topic, self.timeout))?;
        let batches = sent
            .into_iter()
            .map(|(delivery, count)| (delivery, 0, count))
            .collect();
        Ok((taken, Deliveries::new(Parts { batches })))
    }
}

fn micros_since_epoch() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a client reads clocks")]
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}
