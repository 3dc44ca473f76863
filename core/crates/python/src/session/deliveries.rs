//! Results of messages that were sent.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use headrace_engine::{Delivery as NativeDelivery, session::Stored};
use pyo3::{
    exceptions::{PyRuntimeError, PyTimeoutError},
    prelude::*,
    sync::PyOnceLock,
};

use super::{
    failures::{for_users, send_error, used_after_fork},
    pending::{Completion, Pending, wait},
};
use crate::forked::ForkGuard;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Delivered>()?;
    module.add_class::<Delivery>()?;
    module.add_class::<AwaitableDelivery>()?;
    module.add_class::<Deliveries>()?;
    module.add_function(wrap_pyfunction!(wait_for_deliveries, module)?)
}

/// Place of a stored message.
#[pyclass(frozen, get_all, eq, module = "headrace_core")]
#[derive(Clone, PartialEq)]
pub(super) struct Delivered {
    /// Partition that has the message.
    partition_id: u32,
    /// Offset in the partition; None if the server does not report offsets.
    offset: Option<u64>,
}

#[pymethods]
impl Delivered {
    fn __repr__(&self) -> String {
        format!("Delivered({})", self.text())
    }
}

impl Delivered {
    fn text(&self) -> String {
        let offset = self
            .offset
            .map_or_else(|| "None".to_owned(), |offset| offset.to_string());
        format!("partition_id={}, offset={offset}", self.partition_id)
    }
}

fn delivered(stored: Stored, index: u32) -> Delivered {
    Delivered {
        partition_id: stored.partition,
        offset: stored.base_offset.map(|base| base + u64::from(index)),
    }
}

/// Place of one message within its batch.
struct Message {
    batch: Arc<NativeDelivery>,
    index: u32,
}

impl Message {
    fn outcome(&self) -> PyResult<Delivered> {
        match self.batch.ask(self.index..self.index + 1) {
            Some(Ok(stored)) => Ok(delivered(stored, self.index)),
            Some(Err(failure)) => Err(send_error(&failure)),
            None => Err(not_delivered_yet()),
        }
    }
}

/// Text of a result. A failure that is only shown was not asked for: the producer still raises it.
fn text_of(kind: &str, message: &ForkGuard<Message>) -> String {
    let Ok(Message { batch, index }) = message.get() else {
        return format!("{kind}(of another process)");
    };
    match batch.get() {
        Some(Ok(stored)) => format!("{kind}({})", delivered(stored, *index).text()),
        Some(Err(_)) => format!("{kind}(failed)"),
        None => format!("{kind}(not delivered yet)"),
    }
}

impl Completion for Message {
    fn has_ended(&self) -> bool {
        self.batch.is_fulfilled()
    }

    fn wait(&self, timeout: Duration) -> bool {
        self.batch.wait(timeout)
    }

    fn on_end(&self, listener: Box<dyn FnOnce() + Send>) {
        self.batch.on_fulfilled(listener);
    }

    fn result(&self, python: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.outcome()?.into_pyobject(python)?.into_any().unbind())
    }
}

fn not_delivered_yet() -> PyErr {
    PyTimeoutError::new_err("the message is not delivered yet")
}

fn not_all_delivered_yet() -> PyErr {
    PyTimeoutError::new_err("some messages are not delivered yet")
}

/// The result of one message: a future for threads.
///
/// Examples:
///     >>> with client.producer("shop", "orders") as producer:
///     ...     delivery = producer.send(b"one book", partition=0)
///     >>> delivery.done(), delivery.result().offset
///     (True, 0)
#[expect(clippy::doc_markdown, reason = "the example is in Python")]
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct Delivery(ForkGuard<Message>);

impl Delivery {
    pub(super) fn new(batch: Arc<NativeDelivery>, index: u32) -> Self {
        Self(ForkGuard::new(Message { batch, index }))
    }

    fn message(&self) -> PyResult<&Message> {
        self.0.get().map_err(used_after_fork)
    }
}

#[pymethods]
impl Delivery {
    /// Return whether the result is there.
    fn done(&self) -> PyResult<bool> {
        Ok(self.message().map_err(for_users)?.has_ended())
    }

    fn __repr__(&self) -> String {
        text_of("Delivery", &self.0)
    }

    /// Wait for the result: partition and offset of the stored message.
    #[pyo3(signature = (timeout = None))]
    fn result(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Delivered> {
        let outcome = || {
            let message = self.message()?;
            if !wait(python, timeout, |slice| message.wait(slice))? {
                return Err(not_delivered_yet());
            }
            message.outcome()
        };
        outcome().map_err(for_users)
    }

    /// The delivery itself.
    #[getter]
    fn native(this: Py<Self>) -> Py<Self> {
        this
    }
}

/// Coroutine function of the package `headrace` that waits for an operation.
static WAITING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Have results of messages wait with a coroutine function, which takes the operation.
#[pyfunction]
fn wait_for_deliveries(python: Python<'_>, waiting: Py<PyAny>) {
    let _ = WAITING.set(python, waiting);
}

/// The result of one message: await it for partition and offset of the stored message.
///
/// Examples:
///     >>> async def order():
///     ...     async with headrace.aio.connect(url) as client, client.producer("shop", "orders") as producer:
///     ...         delivery = await producer.send(b"one book", partition=1)
///     ...         return await delivery
///     >>> asyncio.run(order())
///     Delivered(partition_id=1, offset=0)
#[expect(clippy::doc_markdown, reason = "the example is in Python")]
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct AwaitableDelivery(ForkGuard<Message>);

impl AwaitableDelivery {
    pub(super) fn new(batch: Arc<NativeDelivery>, index: u32) -> Self {
        Self(ForkGuard::new(Message { batch, index }))
    }

    fn message(&self) -> PyResult<&Message> {
        self.0
            .get()
            .map_err(|fork| for_users(used_after_fork(fork)))
    }
}

#[pymethods]
impl AwaitableDelivery {
    /// The same result, for asyncio.
    #[new]
    fn of(delivery: &Delivery) -> PyResult<Self> {
        let Message { batch, index } = delivery.message().map_err(for_users)?;
        Ok(Self::new(Arc::clone(batch), *index))
    }

    /// Return whether the result is there.
    fn done(&self) -> PyResult<bool> {
        Ok(self.message()?.has_ended())
    }

    fn __repr__(&self) -> String {
        text_of("AwaitableDelivery", &self.0)
    }

    fn __await__<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Message { batch, index } = self.message()?;
        let (batch, index) = (Arc::clone(batch), *index);
        let pending = Pending::of(Arc::new(Message { batch, index }));
        let waiting = WAITING.get(python).ok_or_else(|| {
            PyRuntimeError::new_err("import headrace.aio before a delivery is awaited")
        })?;
        let coroutine = waiting.bind(python).call1((pending,))?;
        coroutine.call_method0("__await__")
    }
}

/// Results of messages that were sent together, by run of messages that follow each other in a batch: result, first
/// message, number of messages.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct Deliveries {
    parts: ForkGuard<Arc<Parts>>,
}

#[derive(Default)]
pub(super) struct Parts {
    pub(super) batches: Vec<(Arc<NativeDelivery>, u32, u32)>,
}

impl Parts {
    pub(super) fn add(&mut self, batch: Arc<NativeDelivery>, index: u32) {
        match self.batches.last_mut() {
            // Messages of other threads may lie between two parts of a list.
            Some((last, first, count)) if Arc::ptr_eq(last, &batch) && *first + *count == index => {
                *count += 1;
            }
            _ => self.batches.push((batch, index, 1)),
        }
    }
}

impl Completion for Parts {
    fn has_ended(&self) -> bool {
        self.batches
            .iter()
            .all(|(batch, _, _)| batch.is_fulfilled())
    }

    fn wait(&self, timeout: Duration) -> bool {
        #[expect(clippy::disallowed_methods, reason = "this is a client: it waits")]
        let now = Instant::now;
        let until = now() + timeout;
        self.batches
            .iter()
            .all(|(batch, _, _)| batch.wait(until.saturating_duration_since(now())))
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
        if !self.has_ended() {
            return Err(not_all_delivered_yet());
        }
        let (mut found, mut first_failure) = (Vec::new(), None);
        // All messages are asked for, also those behind the first failure.
        for (batch, index, count) in &self.batches {
            match batch.ask(*index..*index + *count) {
                Some(Ok(stored)) => found.push((delivered(stored, *index), *count)),
                Some(Err(failure)) => first_failure = first_failure.or(Some(failure)),
                None => return Err(not_all_delivered_yet()),
            }
        }
        match first_failure {
            Some(failure) => Err(send_error(&failure)),
            None => Ok(found.into_pyobject(python)?.into_any().unbind()),
        }
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
            parts: ForkGuard::new(Arc::new(parts)),
        }
    }
}

impl Deliveries {
    fn parts(&self) -> PyResult<&Arc<Parts>> {
        self.parts.get().map_err(used_after_fork)
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

    /// Return whether all results are there.
    fn done(&self) -> PyResult<bool> {
        Ok(self.parts()?.has_ended())
    }

    /// The operation that ends with the last result.
    fn pending(&self) -> PyResult<Pending> {
        let completion: Arc<dyn Completion> = self.parts()?.clone();
        Ok(Pending::of(completion))
    }

    /// Wait for all results: first place and length of each run. Errors as of `Delivery.result`.
    #[pyo3(signature = (timeout = None))]
    fn result(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let parts = self.parts()?;
        if !wait(python, timeout, |slice| parts.wait(slice))? {
            return Err(not_all_delivered_yet());
        }
        parts.result(python)
    }
}
