//! Iterating over the messages of a consumer: a step of Python for each batch, none for each message.

use pyo3::{PyTraverseError, PyVisit, prelude::*};

use super::batch::BatchMessages;
use crate::records::Message;

/// Messages of a consumer of Python, without end.
#[pyclass(module = "headrace_core")]
pub(super) struct ConsumerMessages {
    /// The consumer; `None` after the end, which is the first exception, as of a generator.
    consumer: Option<Py<PyAny>>,
    /// Messages of the batch that is open.
    messages: Option<Py<BatchMessages>>,
}

#[pymethods]
impl ConsumerMessages {
    #[new]
    fn new(consumer: Py<PyAny>) -> Self {
        Self {
            consumer: Some(consumer),
            messages: None,
        }
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self, python: Python<'_>) -> PyResult<Option<Message>> {
        if let Some(messages) = &self.messages {
            match messages.bind(python).try_borrow_mut()?.take(python) {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(error) => {
                    self.__clear__();
                    return Err(error);
                }
            }
        }
        self.refilled(python)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.consumer)?;
        visit.call(&self.messages)
    }

    fn __clear__(&mut self) {
        self.consumer = None;
        self.messages = None;
    }
}

impl ConsumerMessages {
    /// The first message of the next batch, which the consumer waits for.
    #[cold]
    fn refilled(&mut self, python: Python<'_>) -> PyResult<Option<Message>> {
        let Some(consumer) = self.consumer.take() else {
            return Ok(None);
        };
        loop {
            let found =
                consumer.call_method1(python, "_messages_after", (self.messages.take(),))?;
            let messages = found.bind(python).cast::<BatchMessages>()?.clone().unbind();
            let first = messages.bind(python).try_borrow_mut()?.take(python)?;
            self.messages = Some(messages);
            if first.is_some() {
                self.consumer = Some(consumer);
                return Ok(first);
            }
        }
    }
}
