//! Sending single messages, without a frame of Python around it.

use std::sync::{Arc, OnceLock};

use headrace_engine::{Delivery as NativeDelivery, Outgoing};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict, PyInt, PyString, PyTuple},
};

use super::{
    deliveries::Delivery,
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

/// The way to the session's buffer.
struct Way {
    producer: Py<Producer>,
    stores_key: bool,
}

impl Way {
    /// Hand a message over. Everything out of the ordinary gives `None`: other types, a full buffer, a failure. Nothing
    /// was taken then, and the same call in Python waits, or says what is wrong.
    fn pushed(&self, given: &Arguments<'_, '_>) -> Option<(Arc<NativeDelivery>, u32)> {
        let producer = self.producer.get().handle().ok()?;
        let payload = given.payload.cast_exact::<PyBytes>().ok()?;
        let partition = match given.partition {
            Some(partition) => Some(partition.cast_exact::<PyInt>().ok()?.extract().ok()?),
            None => None,
        };
        let id = match given.message_id {
            Some(id) => id.cast_exact::<PyInt>().ok()?.extract().ok()?,
            None => 0,
        };
        let key = match given.key {
            Some(_) if partition.is_some() && !self.stores_key => return None,
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
            headers::encode(key.filter(|_| self.stores_key), headers, &mut encoded).ok()?;
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
pub(super) struct Sender {
    way: OnceLock<Way>,
}

#[pymethods]
impl Sender {
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> Self {
        Self {
            way: OnceLock::new(),
        }
    }

    /// Send by this producer from now on.
    fn _send_by(&self, producer: Py<Producer>, stores_key: bool) {
        let _ = self.way.set(Way {
            producer,
            stores_key,
        });
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
        let taken = (this.get().way.get()).and_then(|way| way.pushed(&given));
        if let Some((batch, index)) = taken {
            return Ok(Bound::new(python, Delivery::new(batch, index))?.into_any());
        }
        let named = given.named(python)?;
        if let Some(timeout) = timeout {
            named.set_item("timeout", timeout)?;
        }
        this.call_method("_send_in_python", (payload,), Some(&named))
    }
}
