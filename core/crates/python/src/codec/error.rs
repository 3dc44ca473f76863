//! Errors of encoding and decoding, with their position.

use headrace_wire::{Malformed, Status};
use pyo3::{create_exception, prelude::*};

use crate::errors::CoreError;

create_exception!(
    headrace_core,
    CodecError,
    CoreError,
    "A value has no encoding, or bytes are not what they should be.\n\n\
    `defect` is the kind of the error (`syntax`, `shape`, `value` or `too_large`), `code` the status code that matches \
    it, `field` the path of the field, and `position` the byte offset in the input; the last two are None if unknown."
);

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CodecError", module.py().get_type::<CodecError>())
}

/// Kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// The input does not have the syntax of its format.
    Syntax,
    /// A field is missing, unknown or of another type.
    Shape,
    /// A value is invalid.
    Value,
    /// The input exceeds the caller's limit.
    TooLarge,
}

impl Defect {
    fn name(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::Shape => "shape",
            Self::Value => "value",
            Self::TooLarge => "too_large",
        }
    }
}

/// One error, found with the GIL released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(super) defect: Defect,
    pub(super) status: Status,
    /// Path of the field, for example `messages[3].payload`.
    pub(super) field: Option<String>,
    /// Byte offset in the input.
    pub(super) position: Option<usize>,
    pub(super) text: String,
}

impl Fault {
    /// Create the error of a value that is refused with this status.
    pub(super) fn value(status: Status, field: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            defect: Defect::Value,
            status,
            field: Some(field.into()),
            position: None,
            text: text.into(),
        }
    }

    /// Create the error of an input larger than `limit_bytes`.
    pub(super) fn too_large(field: impl Into<String>, limit_bytes: usize) -> Self {
        Self {
            defect: Defect::TooLarge,
            status: Status::INVALID_MESSAGES_SIZE,
            field: Some(field.into()),
            position: None,
            text: format!("the batch is larger than {limit_bytes} B"),
        }
    }
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self {
            defect: Defect::Syntax,
            status: malformed.into(),
            field: None,
            position: None,
            text: malformed.to_string(),
        }
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        let text = match &fault.field {
            Some(field) => format!("{field}: {}", fault.text),
            None => fault.text,
        };
        let raised = CodecError::new_err(text);
        Python::attach(|python| {
            let value = raised.value(python);
            value.setattr("defect", fault.defect.name())?;
            value.setattr("code", fault.status.0)?;
            value.setattr("field", &fault.field)?;
            value.setattr("position", fault.position)
        })
        .map_or_else(|failure| failure, |()| raised)
    }
}

/// Convert a decoding error.
pub(super) fn malformed(malformed: Malformed) -> PyErr {
    Fault::from(malformed).into()
}
