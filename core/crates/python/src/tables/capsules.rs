//! Capsules of Python around the structs of Arrow's C data interface.
//!
//! The interface consists of pointers, so this file has `unsafe` code.

use std::ffi::CStr;

use arrow_array::{Array, make_array};
use arrow_array::{
    RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray,
    ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi},
    ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader},
};
use arrow_schema::{ArrowError, Schema};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    ffi, intern,
    prelude::*,
    types::{PyCapsule, PyCapsuleMethods},
};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// Do `work` with the interpreter's lock, within a call of a stream.
///
/// A library may release the lock before it calls a stream, in a call that came from this module, for example when the
/// garbage collector runs within one. `Python::attach` alone would take the lock for granted there.
pub(super) fn locked<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    // SAFETY: these functions may be called by any thread; the state that was found is restored below.
    let state = unsafe {
        if ffi::Py_IsInitialized() == 0 {
            return None;
        }
        ffi::PyGILState_Ensure()
    };
    let result = Python::attach(work);
    // SAFETY: it is the state that this thread has found.
    unsafe { ffi::PyGILState_Release(state) };
    Some(result)
}

/// A reader of record batches that any thread may drive.
pub(super) type Reader = Box<dyn RecordBatchReader + Send>;

pub(super) fn unreadable(error: ArrowError) -> PyErr {
    PyValueError::new_err(match error {
        // Its text has the message of the library that made the stream.
        ArrowError::CDataInterface(text) => format!("table: it cannot be read: {text}"),
        other => format!("table: it cannot be read: {other}"),
    })
}

pub(super) fn schema<'py>(python: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let exported = FFI_ArrowSchema::try_from(schema).map_err(unreadable)?;
    PyCapsule::new_with_value(python, exported, SCHEMA)
}

pub(super) type ArrayCapsules<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyCapsule>);

pub(super) fn array(python: Python<'_>, batch: RecordBatch) -> PyResult<ArrayCapsules<'_>> {
    let fields = FFI_ArrowSchema::try_from(batch.schema_ref().as_ref()).map_err(unreadable)?;
    let (exported, _) = to_ffi(&StructArray::from(batch).into_data()).map_err(unreadable)?;
    Ok((
        PyCapsule::new_with_value(python, fields, SCHEMA)?,
        PyCapsule::new_with_value(python, exported, ARRAY)?,
    ))
}

pub(super) fn stream(python: Python<'_>, reader: Reader) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(python, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// Read the schema of a capsule, which stays as it is.
pub(super) fn schema_in(capsule: &Bound<'_, PyCapsule>) -> PyResult<Schema> {
    let found = capsule.pointer_checked(Some(SCHEMA))?.cast();
    // SAFETY: a capsule of this name holds such a struct, which lives as long as the capsule; nothing writes to it
    // while this thread is attached to the interpreter.
    let found: &FFI_ArrowSchema = unsafe { found.as_ref() };
    Schema::try_from(found).map_err(unreadable)
}

/// Read an object as a table: by its stream, or as one array.
pub(super) fn reader(table: &Bound<'_, PyAny>) -> PyResult<Reader> {
    let python = table.py();
    if table.hasattr(intern!(python, "__arrow_c_stream__"))? {
        let capsule = table.call_method0(intern!(python, "__arrow_c_stream__"))?;
        return stream_in(capsule.cast::<PyCapsule>()?);
    }
    if table.hasattr(intern!(python, "__arrow_c_array__"))? {
        let capsules = table.call_method0(intern!(python, "__arrow_c_array__"))?;
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = capsules.extract()?;
        let batch = array_in(&schema, &array)?;
        let schema = batch.schema();
        return Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    }
    let kind = table.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "table: {kind} is no table of Arrow; it has neither __arrow_c_stream__ nor __arrow_c_array__"
    )))
}

fn stream_in(capsule: &Bound<'_, PyCapsule>) -> PyResult<Reader> {
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast();
    // SAFETY: a capsule of this name holds such a struct. It is moved out, and an empty one left, so that it is released
    // once.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    let reader = RecordBatchStreamReader::try_new(stream).map_err(unreadable)?;
    Ok(Box::new(reader))
}

fn array_in(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<RecordBatch> {
    let fields = schema_in(schema)?;
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast();
    let pointer = array.pointer_checked(Some(ARRAY))?.cast();
    // SAFETY: capsules of these names hold such structs. The array is moved out, and an empty one left, so that it is
    // released once. By the protocol the array has the layout of the schema that is given with it.
    let data = unsafe {
        let schema: &FFI_ArrowSchema = schema.as_ref();
        from_ffi(FFI_ArrowArray::from_raw(pointer.as_ptr()), schema)
    };
    let rows = make_array(data.map_err(unreadable)?);
    let rows = rows.as_any().downcast_ref::<StructArray>().cloned();
    let rows = rows.filter(|rows| rows.null_count() == 0).ok_or_else(|| {
        PyValueError::new_err(
            "table: it is no record batch, but an array of single values, or of rows that are null",
        )
    })?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let columns = rows.columns().to_vec();
    RecordBatch::try_new_with_options(fields.into(), columns, &options).map_err(unreadable)
}
