//! Texts of records, for programs that print them: `Topic(id=0, name='orders', partitions_count=2)`.

use pyo3::prelude::*;

/// Give a record a `__repr__` with some of its attributes.
macro_rules! readable {
    ($record:ident: $($field:ident),+) => {
        #[pymethods]
        impl $record {
            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                $crate::readable::text(slf.as_any(), &[$(stringify!($field)),+])
            }
        }
    };
}
pub(crate) use readable;

/// Type of a record with the given attributes.
pub(crate) fn text(record: &Bound<'_, PyAny>, fields: &[&str]) -> PyResult<String> {
    let mut texts = Vec::with_capacity(fields.len());
    for &field in fields {
        texts.push(format!("{field}={}", record.getattr(field)?.repr()?));
    }
    Ok(format!(
        "{}({})",
        record.get_type().name()?,
        texts.join(", ")
    ))
}
