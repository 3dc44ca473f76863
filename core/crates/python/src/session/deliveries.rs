//! Results of messages that were sent.

use std::{sync::Arc, time::Duration};

use headrace_engine::{Delivery as NativeDelivery, session::Stored};
use pyo3::{exceptions::PyTimeoutError, prelude::*};

use super::{
    completions::Completions,
    failures::{elsewhere, send_error},
    pending::{Ends, Pending, wait},
};
use crate::forked::Homebound;

/// Place of a stored message.
#[pyclass(frozen, get_all, eq, module = "headrace_core")]
#[derive(Clone, PartialEq)]
pub(super) struct Delivered {
    partition_id: u32,
    offset: Option<u64>,
}

#[pymethods]
impl Delivered {
    fn __repr__(&self) -> String {
        let offset = self
            .offset
            .map_or_else(|| "None".to_owned(), |offset| offset.to_string());
        format!(
            "Delivered(partition_id={}, offset={offset})",
            self.partition_id
        )
    }
}

fn delivered(stored: Stored, index: u32) -> Delivered {
    Delivered {
        partition_id: stored.partition,
        offset: stored.base_offset.map(|base| base + u64::from(index)),
    }
}

/// Result of one message.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct Delivery {
    batch: Homebound<Arc<NativeDelivery>>,
    index: u32,
}

impl Delivery {
    fn batch(&self) -> PyResult<&Arc<NativeDelivery>> {
        self.batch.get().map_err(elsewhere)
    }

    pub(super) fn new(batch: &Arc<NativeDelivery>, index: u32) -> Self {
        Self {
            batch: Homebound::new(Arc::clone(batch)),
            index,
        }
    }
}

#[pymethods]
impl Delivery {
    fn done(&self) -> PyResult<bool> {
        Ok(self.batch()?.is_fulfilled())
    }

    #[pyo3(signature = (timeout = None))]
    fn result(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Delivered> {
        let batch = self.batch()?;
        if !wait(python, timeout, |slice| batch.wait(slice))? {
            return Err(PyTimeoutError::new_err("the message is not delivered yet"));
        }
        match batch.get() {
            Some(Ok(stored)) => Ok(delivered(stored, self.index)),
            Some(Err(failure)) => Err(send_error(&failure)),
            None => Err(PyTimeoutError::new_err("the message is not delivered yet")),
        }
    }

    fn notify(&self, completions: &Completions, number: u64) -> PyResult<()> {
        let queue = Arc::clone(&completions.queue);
        self.batch()?.on_fulfilled(move || queue.push(number));
        Ok(())
    }
}

/// Results of messages that were sent together, by batch: result, first message, number of messages.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct Deliveries {
    parts: Homebound<Arc<Parts>>,
}

#[derive(Default)]
pub(super) struct Parts {
    pub(super) batches: Vec<(Arc<NativeDelivery>, u32, u32)>,
}

impl Parts {
    pub(super) fn add(&mut self, batch: &Arc<NativeDelivery>, index: u32) {
        match self.batches.last_mut() {
            Some((last, _, count)) if Arc::ptr_eq(last, batch) => *count += 1,
            _ => self.batches.push((Arc::clone(batch), index, 1)),
        }
    }
}

impl Ends for Parts {
    fn has_ended(&self) -> bool {
        self.batches
            .iter()
            .all(|(batch, _, _)| batch.is_fulfilled())
    }

    fn wait(&self, timeout: Duration) -> bool {
        let open = self
            .batches
            .iter()
            .find(|(batch, _, _)| !batch.is_fulfilled());
        match open {
            Some((batch, _, _)) => batch.wait(timeout) && self.has_ended(),
            None => true,
        }
    }

    fn on_end(&self, listener: Box<dyn FnOnce() + Send>) {
        chain(
            self.batches
                .iter()
                .map(|(batch, _, _)| Arc::clone(batch))
                .collect(),
            listener,
        );
    }

    fn result(&self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut found = Vec::new();
        for (batch, index, count) in &self.batches {
            match batch.get() {
                Some(Ok(stored)) => found.push((delivered(stored, *index), *count)),
                Some(Err(failure)) => return Err(send_error(&failure)),
                None => {
                    return Err(PyTimeoutError::new_err(
                        "some messages are not delivered yet",
                    ));
                }
            }
        }
        Ok(found.into_pyobject(python)?.into_any().unbind())
    }
}

/// Call `listener` once every batch has its result.
fn chain(mut batches: Vec<Arc<NativeDelivery>>, listener: Box<dyn FnOnce() + Send>) {
    while let Some(batch) = batches.pop() {
        if !batch.is_fulfilled() {
            return batch.on_fulfilled(move || chain(batches, listener));
        }
    }
    listener();
}

impl Deliveries {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            parts: Homebound::new(Arc::new(parts)),
        }
    }
}

impl Deliveries {
    fn parts(&self) -> PyResult<&Arc<Parts>> {
        self.parts.get().map_err(elsewhere)
    }
}

#[pymethods]
impl Deliveries {
    fn __len__(&self) -> PyResult<usize> {
        let counts = self
            .parts()?
            .batches
            .iter()
            .map(|(_, _, count)| *count as usize);
        Ok(counts.sum())
    }

    fn done(&self) -> PyResult<bool> {
        Ok(self.parts()?.has_ended())
    }

    /// The operation that ends with the last result.
    fn pending(&self) -> PyResult<Pending> {
        let ends: Arc<dyn Ends> = self.parts()?.clone();
        Ok(Pending::of(ends))
    }

    #[pyo3(signature = (timeout = None))]
    fn result(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let parts = self.parts()?;
        if !wait(python, timeout, |slice| parts.wait(slice))? {
            return Err(PyTimeoutError::new_err(
                "some messages are not delivered yet",
            ));
        }
        parts.result(python)
    }
}
