//! User headers as dictionaries of Python.

use headrace_wire::headers::{self, Value, pairs};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString},
};

/// User header that holds the key of a message.
pub(super) const KEY_HEADER: &str = headrace_columns::KEY_HEADER;

/// Encode a key and headers.
pub(crate) fn encode(
    key: Option<&[u8]>,
    given: Option<&Bound<'_, PyDict>>,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    if let Some(key) = key {
        headers::push(Value::Text(KEY_HEADER), Value::Raw(key), out).map_err(|_| {
            PyValueError::new_err(format!(
                "key: it has {} bytes, 1 to 255 are allowed",
                key.len()
            ))
        })?;
    }
    for (name, value) in given.into_iter().flatten() {
        let name = name
            .extract::<String>()
            .map_err(|_| PyTypeError::new_err("headers: names are texts"))?;
        push(&name, &value, out)?;
    }
    Ok(())
}

fn push(name: &str, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    let text;
    let bytes;
    let typed = if value.is_instance_of::<PyBool>() {
        Value::Bool(value.extract()?)
    } else if value.is_instance_of::<PyInt>() {
        let outside = |_| {
            PyValueError::new_err(format!(
                "headers[{name:?}]: the number needs more than 64 bits"
            ))
        };
        Value::Int64(value.extract().map_err(outside)?)
    } else if value.is_instance_of::<PyFloat>() {
        Value::Float64(value.extract()?)
    } else if value.is_instance_of::<PyString>() {
        text = value.extract::<String>()?;
        Value::Text(&text)
    } else if value.is_instance_of::<PyBytes>() {
        bytes = value.extract::<Vec<u8>>()?;
        Value::Raw(&bytes)
    } else {
        let kind = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "headers[{name:?}]: {kind} is none of str, bytes, bool, int and float"
        )));
    };
    headers::push(Value::Text(name), typed, out).map_err(|status| {
        PyValueError::new_err(format!(
            "headers[{name:?}]: names and values have 1 to 255 bytes ({status})"
        ))
    })
}

/// Find the key of a message.
pub(crate) fn key_of(user_headers: &[u8]) -> Option<&[u8]> {
    pairs(user_headers).find_map(|pair| {
        let pair = pair.ok()?;
        match (pair.key.value(), pair.value.value()) {
            (Ok(Value::Text(KEY_HEADER)), Ok(Value::Raw(key))) => Some(key),
            _ => None,
        }
    })
}

/// Decode headers without the key; `None` if they cannot be read.
pub(crate) fn headers_dict<'py>(
    python: Python<'py>,
    user_headers: &[u8],
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let found = PyDict::new(python);
    for pair in pairs(user_headers) {
        let Ok(pair) = pair else {
            return Ok(None);
        };
        let (Ok(name), Ok(value)) = (pair.key.value(), pair.value.value()) else {
            return Ok(None);
        };
        if name == Value::Text(KEY_HEADER) && matches!(value, Value::Raw(_)) {
            continue;
        }
        found.set_item(object(python, name)?, object(python, value)?)?;
    }
    Ok(Some(found))
}

fn object<'py>(python: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Raw(bytes) => PyBytes::new(python, bytes).into_any(),
        Value::Text(text) => PyString::new(python, text).into_any(),
        Value::Bool(value) => PyBool::new(python, value).to_owned().into_any(),
        Value::Int8(value) => value.into_pyobject(python)?.into_any(),
        Value::Int16(value) => value.into_pyobject(python)?.into_any(),
        Value::Int32(value) => value.into_pyobject(python)?.into_any(),
        Value::Int64(value) => value.into_pyobject(python)?.into_any(),
        Value::Int128(value) => value.into_pyobject(python)?.into_any(),
        Value::Uint8(value) => value.into_pyobject(python)?.into_any(),
        Value::Uint16(value) => value.into_pyobject(python)?.into_any(),
        Value::Uint32(value) => value.into_pyobject(python)?.into_any(),
        Value::Uint64(value) => value.into_pyobject(python)?.into_any(),
        Value::Uint128(value) => value.into_pyobject(python)?.into_any(),
        Value::Float32(value) => f64::from(value).into_pyobject(python)?.into_any(),
        Value::Float64(value) => value.into_pyobject(python)?.into_any(),
    })
}
