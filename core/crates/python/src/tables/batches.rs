//! Batches of messages for Arrow libraries.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use headrace_columns::{Column, decode::Batch as DecodedBatch};
use headrace_tables::batches::{RequestError, conformed, record_batch, requested, schema};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyCapsule, PyIterator},
};

use super::capsules;
use crate::session::Batch;

/// Columns that are given unless a schema is asked for.
const DEFAULT: [Column; 5] = [
    Column::Partition,
    Column::Offset,
    Column::Timestamp,
    Column::Key,
    Column::Value,
];

/// Columns that are given, and the types that they are given in.
#[derive(Clone)]
pub(crate) struct Projection {
    pub(crate) columns: Vec<Column>,
    /// Types that were asked for.
    schema: Option<SchemaRef>,
}

impl Projection {
    fn schema(&self) -> SchemaRef {
        let own = || schema(&self.columns);
        self.schema.as_ref().map_or_else(own, Arc::clone)
    }

    fn given(&self, batch: DecodedBatch) -> Result<RecordBatch, RequestError> {
        let batch = record_batch(&self.columns, batch);
        match &self.schema {
            Some(schema) => conformed(&batch, schema),
            None => Ok(batch),
        }
    }

    fn all_given(&self, batches: Vec<DecodedBatch>) -> Result<Vec<RecordBatch>, RequestError> {
        let batches = batches.into_iter();
        batches.map(|batch| self.given(batch)).collect()
    }
}

fn refused(error: RequestError) -> PyErr {
    PyValueError::new_err(format!("requested_schema: {error}"))
}

/// Read what a library asks for.
pub(crate) fn projection_of(
    requested_schema: Option<&Bound<'_, PyCapsule>>,
    knows_names: bool,
) -> PyResult<Projection> {
    let Some(capsule) = requested_schema else {
        let columns = DEFAULT.to_vec();
        return Ok(Projection {
            columns,
            schema: None,
        });
    };
    let wanted = capsules::schema_in(capsule)?;
    let columns = requested(&wanted).map_err(refused)?;
    let nameless = |column: &&Column| matches!(column, Column::Stream | Column::Topic);
    if let Some(column) = columns.iter().find(nameless).filter(|_| !knows_names) {
        return Err(PyValueError::new_err(format!(
            "requested_schema: column {:?}: a batch does not know it; use headrace.tables.record_batch",
            column.name()
        )));
    }
    Ok(Projection {
        columns,
        schema: Some(Arc::new(wanted)),
    })
}

pub(crate) fn schema_capsule(python: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    capsules::schema(python, &schema(&DEFAULT))
}

/// Return the rows of a batch in one piece.
pub(crate) fn one_record_batch(
    projection: &Projection,
    batches: Vec<DecodedBatch>,
) -> PyResult<RecordBatch> {
    let mut batches = projection.all_given(batches).map_err(refused)?;
    match (batches.pop(), batches.is_empty()) {
        (None, _) => Ok(RecordBatch::new_empty(projection.schema())),
        (Some(batch), true) => Ok(batch),
        (Some(_), false) => Err(PyValueError::new_err(
            "the columns of the batch have more than 2 GiB; read them as a stream",
        )),
    }
}

pub(crate) fn array_capsules(
    python: Python<'_>,
    batch: RecordBatch,
) -> PyResult<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)> {
    capsules::array(python, batch)
}

/// Return decoded batches as a stream.
pub(crate) fn stream_of<'py>(
    python: Python<'py>,
    projection: &Projection,
    batches: Vec<DecodedBatch>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let batches = projection.all_given(batches).map_err(refused)?;
    let batches = batches.into_iter().map(Ok);
    let reader = RecordBatchIterator::new(batches, projection.schema());
    capsules::stream(python, Box::new(reader))
}

/// Record batches of the batches that an iterator gives.
struct Batches {
    /// `None` once the stream is released.
    iterator: Option<Py<PyIterator>>,
    projection: Projection,
    stream: String,
    topic: String,
    /// Record batches of the batch that was read last.
    ready: std::vec::IntoIter<RecordBatch>,
}

impl Batches {
    /// Read the next batch; `None` at the end.
    fn read(&self, python: Python<'_>) -> PyResult<Option<Vec<RecordBatch>>> {
        let iterator = self
            .iterator
            .as_ref()
            .map(|iterator| iterator.bind(python).clone());
        let Some(batch) = iterator.and_then(|mut iterator| iterator.next()) else {
            return Ok(None);
        };
        let batch = batch?.cast_into::<Batch>()?;
        let batch = batch.get();
        let decoded = batch.decoded(
            python,
            self.projection.columns.clone(),
            &self.stream,
            &self.topic,
        )?;
        self.projection
            .all_given(decoded)
            .map_err(refused)
            .map(Some)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.ready.next() {
                return Some(Ok(batch));
            }
            // The error becomes a text here, because the library drops it without the lock.
            let read = capsules::locked(|python| {
                let read = self.read(python);
                read.map_err(|error| ArrowError::ExternalError(error.to_string().into()))
            });
            match read? {
                Ok(Some(batches)) => self.ready = batches.into_iter(),
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        let mut iterator = self.iterator.take();
        capsules::locked(|_| drop(iterator.take()));
        // Without an interpreter there is nothing to count references for.
        std::mem::forget(iterator);
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.projection.schema()
    }
}

/// Return the batches of an iterator as a stream of record batches.
#[pyfunction]
#[pyo3(signature = (batches, *, stream, topic, requested_schema = None))]
pub(super) fn batch_stream<'py>(
    batches: &Bound<'py, PyAny>,
    stream: String,
    topic: String,
    requested_schema: Option<&Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let reader = Batches {
        iterator: Some(batches.try_iter()?.unbind()),
        projection: projection_of(requested_schema, true)?,
        stream,
        topic,
        ready: Vec::new().into_iter(),
    };
    capsules::stream(batches.py(), Box::new(reader))
}
