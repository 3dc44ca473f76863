//! Memory that Python and Rust share through the buffer protocol.
//!
//! The protocol uses pointers, so this file has `unsafe` code, as `tables/capsules.rs` has.

use std::ffi::c_int;

use headrace_columns::Buffer;
use pyo3::{
    buffer::PyBuffer,
    ffi,
    prelude::*,
    types::{PyBytes, PyMemoryView},
};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ColumnBuffer>()
}

/// Immutable memory of a column.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct ColumnBuffer(Buffer);

impl From<Buffer> for ColumnBuffer {
    fn from(buffer: Buffer) -> Self {
        Self(buffer)
    }
}

#[pymethods]
impl ColumnBuffer {
    fn __len__(&self) -> usize {
        self.0.as_bytes().len()
    }

    /// SAFETY: called by the interpreter, with a `view` that it owns.
    unsafe fn __getbuffer__(
        this: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = this.get().0.as_bytes();
        let length = isize::try_from(bytes.len())?;
        // SAFETY: the bytes belong to the object, of which the view takes a reference; being frozen it never moves or
        // changes them, and the view is read-only.
        let outcome = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                this.as_ptr(),
                bytes.as_ptr().cast_mut().cast(),
                length,
                1,
                flags,
            )
        };
        if outcome == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(this.py()))
        }
    }
}

/// Bytes of a Python object for the duration of a call, with or without the GIL.
pub(super) enum Memory {
    /// Borrowed bytes, which do not change.
    Unsigned(PyBuffer<u8>),
    /// Borrowed bytes of a buffer with signed elements.
    Signed(PyBuffer<i8>),
    /// Copy of bytes that may change during the call, or that are not contiguous.
    Copied(Vec<u8>),
}

impl Memory {
    /// Access the bytes of any object with the buffer protocol.
    pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let never_changes = never_changes(object);
        if let Ok(buffer) = PyBuffer::<u8>::get(object) {
            if never_changes && stays_as_it_is(&buffer) {
                return Ok(Self::Unsigned(buffer));
            }
            return Ok(Self::Copied(buffer.to_vec(object.py())?));
        }
        let buffer = PyBuffer::<i8>::get(object)?;
        if never_changes && stays_as_it_is(&buffer) {
            return Ok(Self::Signed(buffer));
        }
        let copied = buffer.to_vec(object.py())?;
        Ok(Self::Copied(
            copied.into_iter().map(i8::cast_unsigned).collect(),
        ))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let (start, length) = match self {
            Self::Unsigned(buffer) => (buffer.buf_ptr(), buffer.len_bytes()),
            Self::Signed(buffer) => (buffer.buf_ptr(), buffer.len_bytes()),
            Self::Copied(bytes) => return bytes,
        };
        if length == 0 {
            return &[];
        }
        // SAFETY: the view keeps this number of bytes from `start` on alive and contiguous, and they belong to an
        // object of a type that is never written to.
        unsafe { std::slice::from_raw_parts(start.cast(), length) }
    }
}

/// Return whether the object is of an immutable type. A read-only view is not sufficient: it prevents writes through
/// the view only, and that of a `bytearray` can be read-only, too.
fn never_changes(object: &Bound<'_, PyAny>) -> bool {
    if let Ok(view) = object.cast::<PyMemoryView>() {
        return view
            .getattr("obj")
            .is_ok_and(|owner| !owner.is_instance_of::<PyMemoryView>() && never_changes(&owner));
    }
    if object.is_exact_instance_of::<PyBytes>() || object.is_exact_instance_of::<ColumnBuffer>() {
        return true;
    }
    let kind = object.get_type();
    kind.module().is_ok_and(|module| module == "pyarrow.lib")
        && kind.name().is_ok_and(|name| name == "Buffer")
}

fn stays_as_it_is<T>(buffer: &PyBuffer<T>) -> bool {
    buffer.readonly() && buffer.is_c_contiguous()
}
