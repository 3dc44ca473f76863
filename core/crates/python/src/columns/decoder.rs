//! Decoding of message payloads to columns.

use headrace_columns::{
    Array, Column,
    decode::{Batch, DecodeError, Decoder, Defect, Settings},
};
use pyo3::{create_exception, exceptions::PyValueError, prelude::*};

use super::memory::{ColumnBuffer, Memory};
use crate::{errors::CoreError, readable::readable};

create_exception!(
    headrace_core,
    RecordError,
    CoreError,
    "Messages of a partition are not what was asked for, or damaged.\n\n\
    `defect` is the kind of the error, `byte` the offset in the payload at which the message or its invalid part \
    begins, `offset` that of the message, None if its header is incomplete, and `expected_offset` the next one, if \
    the defect is `offset`."
);

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("RecordError", module.py().get_type::<RecordError>())?;
    module.add_class::<ColumnArray>()?;
    module.add_class::<RecordColumns>()?;
    module.add_class::<RecordDecoder>()
}

readable!(ColumnArray: length, null_count);
readable!(RecordColumns: rows, first_offset);

/// One column, or the child values of one, in Arrow's layout.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(super) struct ColumnArray {
    /// Number of values, including nulls.
    length: usize,
    /// Number of nulls.
    null_count: usize,
    /// Buffers in Arrow's order; the first is the validity bitmap, and is None if there are no nulls.
    buffers: Vec<Option<Py<ColumnBuffer>>>,
    /// Child arrays: of a list its values; of a struct its fields.
    children: Vec<Py<ColumnArray>>,
}

impl ColumnArray {
    fn new(python: Python<'_>, array: Array) -> PyResult<Py<Self>> {
        let buffers = array.buffers.into_iter().map(|buffer| {
            buffer
                .map(|buffer| Py::new(python, ColumnBuffer::from(buffer)))
                .transpose()
        });
        let children = array.children.into_iter();
        let array = Self {
            length: array.length,
            null_count: array.null_count,
            buffers: buffers.collect::<PyResult<_>>()?,
            children: children
                .map(|child| Self::new(python, child))
                .collect::<PyResult<_>>()?,
        };
        Py::new(python, array)
    }
}

/// Messages of one partition as columns.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct RecordColumns {
    /// Number of rows, the same in every column.
    rows: usize,
    /// Offset of the first row.
    first_offset: u64,
    /// Columns in the requested order.
    columns: Vec<Py<ColumnArray>>,
}

impl RecordColumns {
    fn new(python: Python<'_>, batch: Batch) -> PyResult<Py<Self>> {
        let columns = batch.columns.into_iter();
        let columns = columns.map(|array| ColumnArray::new(python, array));
        let columns = Self {
            rows: batch.rows,
            first_offset: batch.first_offset,
            columns: columns.collect::<PyResult<_>>()?,
        };
        Py::new(python, columns)
    }
}

/// Decodes the messages of one partition to columns.
#[pyclass(module = "headrace_core")]
pub(super) struct RecordDecoder(Decoder);

#[pymethods]
impl RecordDecoder {
    #[expect(clippy::too_many_arguments, reason = "what is decoded, and to what")]
    #[new]
    #[pyo3(signature = (
        columns, *, start, end = None, partition, verify = true, batch_rows = 16_384, batch_bytes = 4_194_304,
        stream = "", topic = ""
    ))]
    fn new(
        columns: Vec<String>,
        start: u64,
        end: Option<u64>,
        partition: u32,
        verify: bool,
        batch_rows: usize,
        batch_bytes: usize,
        stream: &str,
        topic: &str,
    ) -> PyResult<Self> {
        let columns = columns.iter().map(|name| column(name));
        let settings = Settings {
            columns: columns.collect::<PyResult<_>>()?,
            start,
            end: end.unwrap_or(u64::MAX),
            verify,
            batch_rows,
            batch_bytes,
            stream: stream.to_owned(),
            topic: topic.to_owned(),
            partition,
        };
        Decoder::new(settings)
            .map(Self)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Offset of the next message: where to resume after a failed call.
    #[getter]
    fn next_offset(&self) -> u64 {
        self.0.next_offset()
    }

    /// Return whether the whole range was decoded.
    #[getter]
    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// Decode the messages of a payload, `FetchResponse.polled`, and return the batches that have become full.
    ///
    /// The payload may begin before the next offset: such messages are skipped. An empty payload has no messages.
    fn feed(
        &mut self,
        python: Python<'_>,
        payload: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Py<RecordColumns>>> {
        let payload = Memory::of(payload)?;
        let batches = python.detach(|| {
            self.0.feed(payload.bytes())?;
            Ok(self.0.take_full())
        });
        handed_over(python, batches.map_err(record_error)?)
    }

    /// Return all remaining batches, the last one incomplete. The caller checks whether the range was complete.
    fn finish(&mut self, python: Python<'_>) -> PyResult<Vec<Py<RecordColumns>>> {
        let batches = python.detach(|| self.0.finish());
        handed_over(python, batches)
    }
}

pub(crate) fn handed_over(
    python: Python<'_>,
    batches: Vec<Batch>,
) -> PyResult<Vec<Py<RecordColumns>>> {
    let batches = batches.into_iter();
    batches
        .map(|batch| RecordColumns::new(python, batch))
        .collect()
}

pub(crate) fn column(name: &str) -> PyResult<Column> {
    Column::named(name).ok_or_else(|| {
        let names = Column::ALL.map(Column::name).join(", ");
        PyValueError::new_err(format!(
            "column {name:?} does not exist: the columns are {names}"
        ))
    })
}

pub(crate) fn record_error(error: DecodeError) -> PyErr {
    let (name, expected) = match error.defect {
        Defect::Truncated => ("truncated", None),
        Defect::Count { .. } => ("count", None),
        Defect::Partition { .. } => ("partition", None),
        Defect::Offset { expected } => ("offset", Some(expected)),
        Defect::OffsetRange | Defect::TimestampRange => ("range", None),
        Defect::Reserved => ("reserved", None),
        Defect::Checksum { .. } => ("checksum", None),
        Defect::Size { .. } => ("size", None),
    };
    let raised = RecordError::new_err(error.to_string());
    Python::attach(|python| {
        let value = raised.value(python);
        value.setattr("defect", name)?;
        value.setattr("offset", error.offset)?;
        value.setattr("byte", error.byte)?;
        value.setattr("expected_offset", expected)
    })
    .map_or_else(|failure| failure, |()| raised)
}
