//! Producers.

use headrace_engine::{
    Outgoing, ProducerHandle,
    session::{OwnedIdentifier, Place, ProducerConfig, PushRefused},
};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyDict, PyList},
};

use super::{
    deliveries::{Deliveries, Delivery, Parts},
    failures::{push_error, request_error, row_error, send_error, used_after_fork},
    headers,
    pending::Pending,
    reports::Reports,
    requester::engine,
    settings::{SessionConfig, seconds},
};
use crate::{codec::Name, forked::ForkGuard, tables::TableRows};

/// Number of payloads that are converted before there has to be room for them.
const CONVERTED_MAX: usize = 4096;

/// A producer for one topic.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct Producer {
    producer: ForkGuard<ProducerHandle>,
}

pub(super) fn owned(field: &str, name: &Name) -> PyResult<OwnedIdentifier> {
    match name {
        Name::Number(id) => Ok(OwnedIdentifier::Numeric(*id)),
        Name::Text(text) => OwnedIdentifier::named(text).map_err(|_| {
            PyValueError::new_err(format!(
                "{field}: a name has 1 to 255 bytes, this has {}",
                text.len()
            ))
        }),
    }
}

pub(super) fn place(partition: Option<u32>, key: Option<&[u8]>) -> Place<'_> {
    match (partition, key) {
        (Some(partition), _) => Place::Partition(partition),
        (None, Some(key)) => Place::Key(key),
        (None, None) => Place::Balanced,
    }
}

#[pymethods]
impl Producer {
    #[expect(clippy::too_many_arguments, reason = "settings by name")]
    #[new]
    #[pyo3(signature = (
        config, stream, topic, *, batch_messages, batch_bytes, linger, window, buffer_bytes, delivery_timeout,
        repeat_uncertain, reports = None, number = 0
    ))]
    fn new(
        config: &SessionConfig,
        stream: Name,
        topic: Name,
        batch_messages: u32,
        batch_bytes: usize,
        linger: f64,
        window: usize,
        buffer_bytes: usize,
        delivery_timeout: f64,
        repeat_uncertain: bool,
        reports: Option<&Reports>,
        number: u64,
    ) -> PyResult<Self> {
        for (name, value) in [
            ("batch_messages", batch_messages as usize),
            ("batch_bytes", batch_bytes),
            ("window", window),
            ("buffer_bytes", buffer_bytes),
        ] {
            if value == 0 {
                return Err(PyValueError::new_err(format!(
                    "{name}: it must be at least 1"
                )));
            }
        }
        let settings = ProducerConfig {
            batch_messages,
            batch_bytes,
            linger: seconds("linger", linger)?,
            window,
            buffer_bytes,
            delivery_timeout: seconds("delivery_timeout", delivery_timeout)?,
            repeat_uncertain,
        };
        let (stream, topic) = (owned("stream", &stream)?, owned("topic", &topic)?);
        let reports = reports.map(|reports| reports.queue().map(|queue| (queue, number)));
        let reports = reports.transpose()?;
        let producer = ProducerHandle::new(&engine()?, &config.0, settings, stream, topic, reports);
        Ok(Self {
            producer: ForkGuard::new(producer),
        })
    }

    /// Result of looking for the topic: None.
    fn opened(&self) -> PyResult<Pending> {
        Ok(Pending::new(self.handle()?.opened()))
    }

    /// Hand over a message; None if the buffer is full. Without an id, the server draws one.
    #[pyo3(signature = (payload, partition = None, key = None, headers = None, id = None, stores_key = true))]
    fn push(
        &self,
        payload: &[u8],
        partition: Option<u32>,
        key: Option<&[u8]>,
        headers: Option<&Bound<'_, PyDict>>,
        id: Option<u128>,
        stores_key: bool,
    ) -> PyResult<Option<Delivery>> {
        let producer = self.handle()?;
        let mut encoded = Vec::new();
        headers::encode(key.filter(|_| stores_key), headers, &mut encoded)?;
        let message = Outgoing {
            place: place(partition, key),
            id: id.unwrap_or(0),
            payload,
            headers: &encoded,
        };
        let mut delivery = None;
        let report = |batch, index| delivery = Some(Delivery::new(batch, index));
        match producer.push(std::iter::once(message), report) {
            (_, None | Some(PushRefused::BufferFull)) => Ok(delivery),
            (_, Some(PushRefused::Closed)) => Err(ended(producer)),
            (_, Some(refused)) => Err(push_error(&refused)),
        }
    }

    /// Hand over messages from `start` on; returns the number that there was room for.
    #[pyo3(signature = (payloads, start, *, partition = None, key = None, headers = None, stores_key = true))]
    #[expect(clippy::too_many_arguments, reason = "arguments by name")]
    fn push_many(
        &self,
        python: Python<'_>,
        payloads: &Bound<'_, PyList>,
        start: usize,
        partition: Option<u32>,
        key: Option<PyBackedBytes>,
        headers: Option<&Bound<'_, PyDict>>,
        stores_key: bool,
    ) -> PyResult<(usize, Deliveries)> {
        let producer = self.handle()?;
        let mut encoded = Vec::new();
        let key: Option<&[u8]> = key.as_deref();
        headers::encode(key.filter(|_| stores_key), headers, &mut encoded)?;
        let mut parts = Parts::default();
        let (mut taken, mut refused) = (0, None);
        // A list that the buffer has no room for is not converted as a whole, and again for each part of it.
        while refused.is_none() {
            let some = converted(payloads, start + taken)?;
            if some.is_empty() {
                break;
            }
            let (more, problem) = python.detach(|| {
                let messages = some.iter().map(|payload| Outgoing {
                    place: place(partition, key),
                    id: 0,
                    payload,
                    headers: &encoded,
                });
                producer.push(messages, |batch, index| parts.add(batch, index))
            });
            taken += more;
            refused = problem;
        }
        match refused {
            None | Some(PushRefused::BufferFull) => Ok((taken, Deliveries::new(parts))),
            Some(PushRefused::Closed) => Err(ended(producer)),
            Some(refused) => Err(push_error(&refused)),
        }
    }

    /// Take rows of a table from `start` on, as many as there is room for.
    fn push_rows(
        &self,
        python: Python<'_>,
        rows: &Bound<'_, TableRows>,
        start: usize,
    ) -> PyResult<(usize, Deliveries)> {
        let producer = self.handle()?;
        let TableRows { rows, first_row } = rows.get();
        let mut parts = Parts::default();
        let (taken, refused) = python.detach(|| {
            let messages = (start..rows.len()).map(|row| {
                let row = rows.get(row);
                Outgoing {
                    place: place(row.partition, row.key),
                    id: row.id,
                    payload: row.payload,
                    headers: row.headers,
                }
            });
            producer.push(messages, |batch, index| parts.add(batch, index))
        });
        match refused {
            None | Some(PushRefused::BufferFull) => Ok((taken, Deliveries::new(parts))),
            Some(PushRefused::Closed) => Err(ended(producer)),
            Some(refused) => Err(row_error(first_row + (start + taken) as u64, &refused)),
        }
    }

    /// Operation that ends when the buffer may have room again.
    fn room(&self) -> PyResult<Pending> {
        Ok(Pending::new(self.handle()?.room()))
    }

    /// Send everything at once; ends when all of it has its result.
    fn flush(&self) -> PyResult<Pending> {
        Ok(Pending::new(self.handle()?.flush()))
    }

    /// Accept no more messages; ends when everything has its result.
    fn close(&self) -> PyResult<Pending> {
        Ok(Pending::new(self.handle()?.close()))
    }

    /// Raise the first failure since the last call whose result was not asked for.
    fn take_failure(&self) -> PyResult<()> {
        match self.handle()?.take_failure() {
            Some(failure) => Err(send_error(&failure)),
            None => Ok(()),
        }
    }

    /// Give up what is buffered.
    fn abort(&self) -> PyResult<()> {
        self.handle()?.abort();
        Ok(())
    }

    /// Number of partitions of the topic; 0 until it is known.
    #[getter]
    fn partitions_count(&self) -> PyResult<u32> {
        Ok(self.handle()?.partitions_count())
    }

    /// Bytes that are buffered; batches delivered, failed and sent.
    fn counters(&self) -> PyResult<(usize, u64, u64, u64)> {
        let counters = self.handle()?.counters();
        Ok((
            counters.buffered_bytes,
            counters.batches_delivered,
            counters.batches_failed,
            counters.batches_sent,
        ))
    }
}

impl Producer {
    pub(super) fn handle(&self) -> PyResult<&ProducerHandle> {
        self.producer.get().map_err(used_after_fork)
    }
}

/// Convert some payloads of a list, from `start` on.
fn converted(payloads: &Bound<'_, PyList>, start: usize) -> PyResult<Vec<PyBackedBytes>> {
    let end = payloads.len().min(start.saturating_add(CONVERTED_MAX));
    let some = (start..end).map(|index| Ok(payloads.get_item(index)?.extract()?));
    some.collect()
}

fn ended(producer: &ProducerHandle) -> PyErr {
    match producer.ended() {
        Some(failure) => request_error(&failure),
        None => push_error(&PushRefused::Closed),
    }
}
