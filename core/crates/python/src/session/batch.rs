//! Messages that were read together.

use headrace_columns::{
    Column,
    decode::{Batch as DecodedBatch, Decoder, Settings},
};
use headrace_engine::session::Batch as NativeBatch;
use headrace_wire::message::{MessageView, Messages};
use pyo3::{
    exceptions::{PyIndexError, PyValueError},
    prelude::*,
    types::{PyBytes, PyCapsule, PyList},
};

use crate::{
    columns::{RecordColumns, column, handed_over, record_error},
    errors::core_error,
    records::Message,
    tables::{array_capsules, one_record_batch, projection_of, schema_capsule, stream_of},
};

/// Messages of one partition.
#[pyclass(frozen, module = "headrace_core")]
pub(crate) struct Batch {
    batch: NativeBatch,
}

impl Batch {
    pub(super) fn new(batch: NativeBatch) -> Self {
        Self { batch }
    }

    /// Decode all messages to columns.
    pub(crate) fn decoded(
        &self,
        python: Python<'_>,
        columns: Vec<Column>,
        stream: &str,
        topic: &str,
    ) -> PyResult<Vec<DecodedBatch>> {
        self.decode(python, columns, stream, topic, true, i32::MAX as usize)
    }

    fn decode(
        &self,
        python: Python<'_>,
        columns: Vec<Column>,
        stream: &str,
        topic: &str,
        verify: bool,
        batch_rows: usize,
    ) -> PyResult<Vec<DecodedBatch>> {
        let settings = Settings {
            columns,
            start: self.batch.first_offset,
            end: self.batch.next_offset,
            verify,
            batch_rows,
            batch_bytes: i32::MAX as usize,
            stream: stream.to_owned(),
            topic: topic.to_owned(),
            partition: self.batch.partition,
        };
        let mut decoder =
            Decoder::new(settings).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let batches = python.detach(|| {
            decoder.feed(&self.batch.polled)?;
            let mut batches = decoder.take_full();
            batches.extend(decoder.finish());
            Ok(batches)
        });
        batches.map_err(record_error)
    }
}

#[pymethods]
impl Batch {
    /// Partition of the messages.
    #[getter]
    fn partition_id(&self) -> u32 {
        self.batch.partition
    }

    /// Offset of the first message of the batch.
    #[getter]
    fn first_offset(&self) -> u64 {
        self.batch.first_offset
    }

    /// Offset of the last message of the batch.
    #[getter]
    fn last_offset(&self) -> u64 {
        self.batch.next_offset.saturating_sub(1)
    }

    /// Offset after the last message of the batch: where to read on.
    #[getter]
    fn next_offset(&self) -> u64 {
        self.batch.next_offset
    }

    /// Offset after the last message of the partition when the batch was read; less `next_offset`, it is the lag.
    #[getter]
    fn partition_end(&self) -> u64 {
        self.batch.partition_end
    }

    /// Size of the messages in bytes, headers included.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.batch.messages.len()
    }

    fn __len__(&self) -> usize {
        self.batch.messages_count as usize
    }

    fn __repr__(&self) -> String {
        let batch = &self.batch;
        format!(
            "Batch(partition_id={}, first_offset={}, next_offset={}, {} messages)",
            batch.partition, batch.first_offset, batch.next_offset, batch.messages_count
        )
    }

    fn __iter__(this: Py<Self>, python: Python<'_>) -> BatchMessages {
        let next_offset = this.borrow(python).batch.first_offset;
        BatchMessages {
            batch: this,
            position: 0,
            next_offset,
        }
    }

    /// Return the payloads of all messages.
    fn payloads<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let payloads = PyList::empty(python);
        for view in Messages::new(&self.batch.messages) {
            let view = view.map_err(|error| core_error(&error))?;
            payloads.append(PyBytes::new(python, view.payload()))?;
        }
        Ok(payloads)
    }

    /// Decode the messages to columns, as `RecordDecoder` does.
    #[pyo3(signature = (columns, *, stream = "", topic = "", verify = true, batch_rows = i32::MAX as usize))]
    fn columns(
        &self,
        python: Python<'_>,
        columns: Vec<String>,
        stream: &str,
        topic: &str,
        verify: bool,
        batch_rows: usize,
    ) -> PyResult<Vec<Py<RecordColumns>>> {
        let columns = columns.iter().map(|name| column(name));
        let columns = columns.collect::<PyResult<_>>()?;
        let batches = self.decode(python, columns, stream, topic, verify, batch_rows)?;
        handed_over(python, batches)
    }

    /// Columns that the batch is read with, unless others are asked for.
    #[expect(clippy::unused_self, reason = "a method of the protocol")]
    fn __arrow_c_schema__<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(python)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        python: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let projection = projection_of(requested_schema, false)?;
        let batches = self.decoded(python, projection.columns.clone(), "", "")?;
        array_capsules(python, one_record_batch(&projection, batches)?)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        python: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let projection = projection_of(requested_schema, false)?;
        let batches = self.decoded(python, projection.columns.clone(), "", "")?;
        stream_of(python, &projection, batches)
    }
}

/// The messages of a batch, one after the other.
#[pyclass(module = "headrace_core")]
pub(super) struct BatchMessages {
    batch: Py<Batch>,
    position: usize,
    /// Offset after the last message that was returned.
    next_offset: u64,
}

#[pymethods]
impl BatchMessages {
    /// Offset after the last message that was returned.
    #[getter]
    fn next_offset(&self) -> u64 {
        self.next_offset
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self, python: Python<'_>) -> PyResult<Option<Message>> {
        self.take(python)
    }

    /// Return none of the messages that are left.
    fn end(&mut self) {
        self.position = self.batch.get().batch.messages.len();
    }
}

impl BatchMessages {
    pub(super) fn take(&mut self, python: Python<'_>) -> PyResult<Option<Message>> {
        let batch = &self.batch.get().batch;
        let rest = (batch.messages.get(self.position..))
            .ok_or_else(|| PyIndexError::new_err("the batch has ended"))?;
        if rest.is_empty() {
            return Ok(None);
        }
        let (view, left) = MessageView::split_first(rest).map_err(|error| core_error(&error))?;
        self.position = batch.messages.len() - left.len();
        self.next_offset = view.header().offset() + 1;
        Ok(Some(Message::new(python, &view, batch.partition)))
    }
}
