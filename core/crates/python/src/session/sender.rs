//! Sending single messages, without a frame of Python around it.

use std::sync::{Arc, OnceLock};

use headrace_engine::{Delivery as NativeDelivery, Outgoing};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyInt, PyString, PyTuple},
};

use super::{
    deliveries::{AwaitableDelivery, Delivery},
    headers::{self, KEY_HEADER},
    producer::{Producer, place},
};

/// A message as a caller describes it.
struct Arguments<'a, 'py> {
    payload: &'a Bound<'py, PyAny>,
    key: Option<&'a Bound<'py, PyAny>>,
    partition: Option<&'a Bound<'py, PyAny>>,
    headers: Option<&'a Bound<'py, PyAny>>,
    message_id: Option<&'a Bound<'py, PyAny>>,
}

impl<'py> Arguments<'_, 'py> {
    /// The arguments that have names.
    fn named(&self, python: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let named = PyDict::new(python);
        for (name, value) in [
            ("key", self.key),
            ("partition", self.partition),
            ("headers", self.headers),
            ("message_id", self.message_id),
        ] {
            if let Some(value) = value {
                named.set_item(name, value)?;
            }
        }
        Ok(named)
    }
}

/// The direct way to the session's buffer: a producer, and whether it stores keys. Without it, Python does everything.
#[derive(Default)]
struct FastPath(OnceLock<(Py<Producer>, bool)>);

impl FastPath {
    fn set(&self, producer: Py<Producer>, stores_key: bool) {
        let _ = self.0.set((producer, stores_key));
    }

    /// Hand a message over. Everything out of the ordinary gives `None`: other types, a full buffer, a failure. Nothing
    /// was taken then, and the same call in Python waits, or says what is wrong.
    fn pushed(&self, given: &Arguments<'_, '_>) -> Option<(Arc<NativeDelivery>, u32)> {
        let (producer, stores_key) = self.0.get()?;
        let producer = producer.get().handle().ok()?;
        let payload = given.payload.cast_exact::<PyBytes>().ok()?;
        let partition = match given.partition {
            Some(partition) => Some(partition.cast_exact::<PyInt>().ok()?.extract().ok()?),
            None => None,
        };
        let id = match given.message_id {
            Some(id) => number(id.cast_exact::<PyInt>().ok()?)?,
            None => 0,
        };
        let key = match given.key {
            Some(_) if partition.is_some() && !stores_key => return None,
            Some(key) => Some(bytes_of(key)?),
            None => None,
        };
        let mut encoded = Vec::new();
        if key.is_some() || given.headers.is_some() {
            let headers = match given.headers {
                Some(headers) => Some(headers.cast_exact::<PyDict>().ok()?),
                None => None,
            };
            if headers.is_some_and(|headers| headers.contains(KEY_HEADER).unwrap_or(true)) {
                return None;
            }
            headers::encode(key.filter(|_| *stores_key), headers, &mut encoded).ok()?;
        }
        let message = Outgoing {
            place: place(partition, key),
            id,
            payload: payload.as_bytes(),
            headers: &encoded,
        };
        let mut taken = None;
        let report = |batch, index| taken = Some((batch, index));
        producer.push(std::iter::once(message), report);
        taken
    }
}

/// An id, which is usually a short one.
fn number(id: &Bound<'_, PyInt>) -> Option<u128> {
    match id.extract::<u64>() {
        Ok(short) => Some(u128::from(short)),
        Err(_) => id.extract().ok(),
    }
}

/// A key as bytes, if it is one that can be stored.
fn bytes_of<'a>(key: &'a Bound<'_, PyAny>) -> Option<&'a [u8]> {
    let bytes = match key.cast_exact::<PyBytes>() {
        Ok(bytes) => bytes.as_bytes(),
        Err(_) => key.cast_exact::<PyString>().ok()?.to_str().ok()?.as_bytes(),
    };
    (1..=255).contains(&bytes.len()).then_some(bytes)
}

/// Base class of producers: `send`, in front of a method of Python that has the same arguments.
#[pyclass(frozen, subclass, module = "headrace_core")]
pub(super) struct Sender(FastPath);

#[pymethods]
impl Sender {
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> Self {
        Self(FastPath::default())
    }

    /// Send by this producer from now on.
    fn _send_by(&self, producer: Py<Producer>, stores_key: bool) {
        self.0.set(producer, stores_key);
    }

    /// Send a message; waits only while the buffer is full. See `headrace.Producer.send`.
    #[pyo3(
        signature = (payload, *, key = None, partition = None, headers = None, message_id = None, timeout = None),
        text_signature = "(self, payload, *, key=None, partition=None, headers=None, message_id=0, timeout=None)"
    )]
    fn send<'py>(
        this: &Bound<'py, Self>,
        payload: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        message_id: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let python = this.py();
        let given = Arguments {
            payload,
            key,
            partition,
            headers,
            message_id,
        };
        if let Some((batch, index)) = this.get().0.pushed(&given) {
            return Ok(Bound::new(python, Delivery::new(batch, index))?.into_any());
        }
        let named = given.named(python)?;
        if let Some(timeout) = timeout {
            named.set_item("timeout", timeout)?;
        }
        this.call_method("_send_in_python", (payload,), Some(&named))
    }
}

/// The same for asyncio, where the method of Python comes first: a coroutine of Python costs less than a native one.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct AwaitableSender(FastPath);

#[pymethods]
impl AwaitableSender {
    #[new]
    fn new(producer: Py<Producer>, stores_key: bool) -> Self {
        let path = FastPath::default();
        path.set(producer, stores_key);
        Self(path)
    }

    /// Hand a message over at once, or return `None` without having done anything.
    fn send(
        &self,
        payload: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        partition: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        message_id: Option<&Bound<'_, PyAny>>,
    ) -> Option<AwaitableDelivery> {
        let given = Arguments {
            payload,
            key,
            partition,
            headers,
            message_id,
        };
        let (batch, index) = self.0.pushed(&given)?;
        Some(AwaitableDelivery::new(batch, index))
    }
}
