//! User headers: pairs of typed keys and values.

use headrace_model::limits::USER_HEADERS_SIZE_BYTES_MAX;
use headrace_wire::{
    Malformed, Status,
    headers::{Field, Pair, encode, pairs},
};
use pyo3::{prelude::*, pybacked::PyBackedBytes, types::PyBytes};

use super::error::Fault;

/// Names of the kinds; the code of a kind is its index plus 1.
const KINDS: [&str; 15] = [
    "raw", "string", "bool", "int8", "int16", "int32", "int64", "int128", "uint8", "uint16",
    "uint32", "uint64", "uint128", "float32", "float64",
];

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_user_headers, module)?)?;
    module.add_function(wrap_pyfunction!(decode_user_headers, module)?)
}

/// Look up the code of a kind.
pub(super) fn kind_code(name: &str) -> Option<u8> {
    let index = KINDS.iter().position(|kind| *kind == name)?;
    u8::try_from(index + 1).ok()
}

/// Look up the name of a kind; `None` for an undefined code.
pub(super) fn kind_name(code: u8) -> Option<&'static str> {
    KINDS.get(usize::from(code).checked_sub(1)?).copied()
}

/// Build a key; the bytes must be valid for the kind.
pub(super) fn key(kind: u8, bytes: &[u8], at: impl Fn() -> String) -> Result<Field<'_>, Fault> {
    let field = Field::new(kind, bytes).ok_or_else(|| {
        let text = format!("it has {} bytes, 1 to 255 are allowed", bytes.len());
        Fault::value(Status::INVALID_HEADER_KEY, at(), text)
    })?;
    field
        .value()
        .map_err(|error| Fault::value(error.key_status(), at(), error.to_string()))?;
    Ok(field)
}

/// Build a value; the bytes must be valid for the kind.
pub(super) fn value(kind: u8, bytes: &[u8], at: impl Fn() -> String) -> Result<Field<'_>, Fault> {
    let field = Field::new(kind, bytes).ok_or_else(|| {
        let text = format!("it has {} bytes, 1 to 255 are allowed", bytes.len());
        Fault::value(Status::INVALID_HEADER_VALUE, at(), text)
    })?;
    field
        .value()
        .map_err(|error| Fault::value(error.value_status(), at(), error.to_string()))?;
    Ok(field)
}

/// Decode the pairs, if the bytes are complete headers of defined kinds.
pub(super) fn readable(user_headers: &[u8]) -> Option<Vec<Pair<'_>>> {
    let pairs: Vec<_> = pairs(user_headers).collect::<Result<_, Malformed>>().ok()?;
    pairs
        .iter()
        .all(|pair| kind_name(pair.key.kind()).is_some() && kind_name(pair.value.kind()).is_some())
        .then_some(pairs)
}

type Typed = (String, PyBackedBytes);

#[pyfunction]
fn encode_user_headers(
    python: Python<'_>,
    headers: Vec<(Typed, Typed)>,
) -> PyResult<Bound<'_, PyBytes>> {
    let mut out = Vec::new();
    for (index, ((key_kind, key_bytes), (value_kind, value_bytes))) in headers.iter().enumerate() {
        let at_key = || format!("headers[{index}].key");
        let at_value = || format!("headers[{index}].value");
        let key = key(kind_code(key_kind).unwrap_or(u8::MAX), key_bytes, at_key)?;
        let value = value(
            kind_code(value_kind).unwrap_or(u8::MAX),
            value_bytes,
            at_value,
        )?;
        encode([Pair { key, value }], &mut out);
        if out.len() > USER_HEADERS_SIZE_BYTES_MAX as usize {
            let text = format!("more than {USER_HEADERS_SIZE_BYTES_MAX} B");
            return Err(Fault::value(Status::TOO_BIG_USER_HEADERS, "headers", text).into());
        }
    }
    Ok(PyBytes::new(python, &out))
}

type PyTyped<'py> = (&'static str, Bound<'py, PyBytes>);

#[pyfunction]
fn decode_user_headers<'py>(
    python: Python<'py>,
    encoded: &[u8],
) -> Option<Vec<(PyTyped<'py>, PyTyped<'py>)>> {
    let typed = |field: Field<'_>| {
        let name = kind_name(field.kind()).unwrap_or("raw");
        (name, PyBytes::new(python, field.bytes()))
    };
    let pairs = readable(encoded)?;
    Some(
        pairs
            .into_iter()
            .map(|pair| (typed(pair.key), typed(pair.value)))
            .collect(),
    )
}
