//! Encoding of columns to batches.

use headrace_columns::digest::{self, Contents};
use headrace_columns::encode::{Batch, EncodeError, Encoder, Settings};
use headrace_columns::{Binary, Lists, Numbers, Positions, Rows, Validity};
use pyo3::{
    create_exception,
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyBytes,
};

use super::memory::Memory;
use crate::{errors::CoreError, readable::readable};

create_exception!(
    headrace_core,
    RowError,
    CoreError,
    "A row cannot be a message: `row` is its index, and `column` the name of the column."
);

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("RowError", module.py().get_type::<RowError>())?;
    module.add_class::<InputArray>()?;
    module.add_class::<EncodedBatch>()?;
    module.add_class::<RecordEncoder>()?;
    module.add_function(wrap_pyfunction!(records_digest, module)?)
}

/// Layout of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Binary,
    LargeBinary,
    FixedBinary(usize),
    Int32,
    Int64,
    List,
    LargeList,
    Struct,
}

impl Layout {
    fn named(name: &str, width: usize) -> PyResult<Self> {
        Ok(match name {
            "binary" => Self::Binary,
            "large_binary" => Self::LargeBinary,
            "fixed_binary" => Self::FixedBinary(width),
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "list" => Self::List,
            "large_list" => Self::LargeList,
            "struct" => Self::Struct,
            _ => {
                let text = format!("layout {name:?} does not exist");
                return Err(PyValueError::new_err(text));
            }
        })
    }

    /// Number of buffers and of child arrays of the layout.
    fn parts(self) -> (usize, usize) {
        match self {
            Self::Binary | Self::LargeBinary => (3, 0),
            Self::FixedBinary(_) | Self::Int32 | Self::Int64 => (2, 0),
            Self::List | Self::LargeList => (2, 1),
            Self::Struct => (1, 2),
        }
    }
}

/// An array of an Arrow library, as its buffers.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct InputArray {
    layout: Layout,
    first: usize,
    buffers: Vec<Option<Memory>>,
    children: Vec<Py<InputArray>>,
}

#[pymethods]
impl InputArray {
    #[new]
    #[pyo3(signature = (layout, buffers, *, offset = 0, width = 0, children = None))]
    fn new(
        layout: &str,
        buffers: Vec<Option<Bound<'_, PyAny>>>,
        offset: usize,
        width: usize,
        children: Option<Vec<Py<Self>>>,
    ) -> PyResult<Self> {
        let kind = Layout::named(layout, width)?;
        let children = children.unwrap_or_default();
        let (buffers_count, children_count) = kind.parts();
        if (buffers.len(), children.len()) != (buffers_count, children_count) {
            return Err(PyValueError::new_err(format!(
                "{layout} has {buffers_count} buffers and {children_count} children, not {} and {}",
                buffers.len(),
                children.len()
            )));
        }
        let buffers = buffers.iter().map(|buffer| {
            let buffer = buffer.as_ref();
            buffer.map(Memory::of).transpose()
        });
        Ok(Self {
            layout: kind,
            first: offset,
            buffers: buffers.collect::<PyResult<_>>()?,
            children,
        })
    }
}

impl InputArray {
    /// Return a buffer; an absent one, as those of empty arrays may be, is empty.
    fn buffer(&self, index: usize) -> &[u8] {
        let buffer = self.buffers.get(index).and_then(Option::as_ref);
        buffer.map_or(&[], Memory::bytes)
    }

    fn slots(&self) -> Validity<'_> {
        Validity {
            validity: self.buffers[0].as_ref().map(Memory::bytes),
            first: self.first,
        }
    }

    fn binary(&self, column: &str) -> PyResult<Binary<'_>> {
        let (positions, data) = match self.layout {
            Layout::Binary => (Positions::Small(self.buffer(1)), self.buffer(2)),
            Layout::LargeBinary => (Positions::Large(self.buffer(1)), self.buffer(2)),
            Layout::FixedBinary(width) => (Positions::Fixed(width), self.buffer(1)),
            _ => return Err(unfit(column, "binary, large_binary or fixed_binary")),
        };
        Ok(Binary {
            slots: self.slots(),
            positions,
            data,
        })
    }

    fn numbers(&self, column: &str, layout: Layout, name: &str) -> PyResult<Numbers<'_>> {
        if self.layout != layout {
            return Err(unfit(column, name));
        }
        Ok(Numbers {
            slots: self.slots(),
            values: self.buffer(1),
        })
    }

    fn lists(&self, column: &str) -> PyResult<Lists<'_>> {
        let positions = match self.layout {
            Layout::List => Positions::Small(self.buffer(1)),
            Layout::LargeList => Positions::Large(self.buffer(1)),
            _ => return Err(unfit(column, "list or large_list")),
        };
        let pairs = self.children[0].get();
        if pairs.layout != Layout::Struct {
            return Err(unfit(column, "list of struct"));
        }
        Ok(Lists {
            slots: self.slots(),
            positions,
            pairs: pairs.slots(),
            keys: pairs.children[0].get().binary(column)?,
            values: pairs.children[1].get().binary(column)?,
        })
    }
}

fn unfit(column: &str, layouts: &str) -> PyErr {
    PyTypeError::new_err(format!("column {column} has to be {layouts}"))
}

readable!(EncodedBatch: partition, messages_count);

/// Messages for one partition, as an append request carries them.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(super) struct EncodedBatch {
    /// The partition.
    partition: u32,
    /// Number of messages, at least one.
    messages_count: u32,
    /// An index of 16 bytes for each message, then the messages: `AppendRequest.batch`.
    batch: Py<PyBytes>,
}

/// Encodes rows to batches, by partition.
#[pyclass(module = "headrace_core")]
pub(super) struct RecordEncoder(Encoder);

#[pymethods]
impl RecordEncoder {
    #[new]
    #[pyo3(signature = (
        *, partitions_count, partition_by_key = true, first_partition = 0, batch_bytes = 1_048_576,
        memory_bytes = 67_108_864, origin_timestamp_micros = 0
    ))]
    fn new(
        partitions_count: u32,
        partition_by_key: bool,
        first_partition: u32,
        batch_bytes: usize,
        memory_bytes: usize,
        origin_timestamp_micros: u64,
    ) -> PyResult<Self> {
        let settings = Settings {
            partitions_count,
            partition_by_key,
            first_partition,
            batch_bytes,
            memory_bytes,
            origin_timestamp: origin_timestamp_micros,
        };
        Encoder::new(settings)
            .map(Self)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Encode rows, and return the batches that have become full.
    #[expect(clippy::too_many_arguments, reason = "columns of a row")]
    #[pyo3(signature = (
        rows, *, value, key = None, headers = None, id = None, timestamp = None, partition = None
    ))]
    fn push(
        &mut self,
        python: Python<'_>,
        rows: usize,
        value: &Bound<'_, InputArray>,
        key: Option<&Bound<'_, InputArray>>,
        headers: Option<&Bound<'_, InputArray>>,
        id: Option<&Bound<'_, InputArray>>,
        timestamp: Option<&Bound<'_, InputArray>>,
        partition: Option<&Bound<'_, InputArray>>,
    ) -> PyResult<Vec<Py<EncodedBatch>>> {
        let given = Rows {
            count: rows,
            value: value.get().binary("value")?,
            key: key.map(|array| array.get().binary("key")).transpose()?,
            headers: headers
                .map(|array| array.get().lists("headers"))
                .transpose()?,
            id: id.map(|array| array.get().binary("id")).transpose()?,
            timestamp: timestamp
                .map(|array| array.get().numbers("timestamp", Layout::Int64, "int64"))
                .transpose()?,
            partition: partition
                .map(|array| array.get().numbers("partition", Layout::Int32, "int32"))
                .transpose()?,
        };
        let batches = python.detach(|| {
            self.0.push(&given)?;
            Ok(self.0.take_full())
        });
        handed_over(python, batches.map_err(row_error)?)
    }

    /// Return all remaining batches, by partition.
    fn finish(&mut self, python: Python<'_>) -> PyResult<Vec<Py<EncodedBatch>>> {
        let batches = python.detach(|| self.0.finish());
        handed_over(python, batches)
    }
}

/// Digest of the contents of messages: see [`digest`].
#[pyfunction]
#[pyo3(signature = (rows, *, offset, timestamp, key, value))]
fn records_digest(
    python: Python<'_>,
    rows: usize,
    offset: &Bound<'_, InputArray>,
    timestamp: &Bound<'_, InputArray>,
    key: &Bound<'_, InputArray>,
    value: &Bound<'_, InputArray>,
) -> PyResult<u64> {
    let contents = Contents {
        count: rows,
        offset: offset.get().numbers("offset", Layout::Int64, "int64")?,
        timestamp: timestamp
            .get()
            .numbers("timestamp", Layout::Int64, "int64")?,
        key: key.get().binary("key")?,
        value: value.get().binary("value")?,
    };
    let found = python.detach(|| digest::digest(&contents));
    found.map_err(|error| PyValueError::new_err(error.to_string()))
}

fn handed_over(python: Python<'_>, batches: Vec<Batch>) -> PyResult<Vec<Py<EncodedBatch>>> {
    let batches = batches.into_iter().map(|batch| {
        let encoded = EncodedBatch {
            partition: batch.partition,
            messages_count: batch.messages_count,
            batch: bytes(python, &batch)?,
        };
        Py::new(python, encoded)
    });
    batches.collect()
}

/// Join index and messages.
fn bytes(python: Python<'_>, batch: &Batch) -> PyResult<Py<PyBytes>> {
    let bytes = PyBytes::new_with(python, batch.size_bytes(), |out| {
        let (index, messages) = out.split_at_mut(batch.index.len());
        index.copy_from_slice(&batch.index);
        messages.copy_from_slice(&batch.messages);
        Ok(())
    });
    bytes.map(Bound::unbind)
}

fn row_error(error: EncodeError) -> PyErr {
    let raised = RowError::new_err(error.to_string());
    Python::attach(|python| {
        let value = raised.value(python);
        value.setattr("row", error.row)?;
        value.setattr("column", error.column.name())
    })
    .map_or_else(|failure| failure, |()| raised)
}
