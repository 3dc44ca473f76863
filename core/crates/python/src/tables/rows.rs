//! Tables whose rows are sent.

use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use headrace_tables::{AddedHeader, Codec, Naming, Plan, Rows, rows::Error};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use super::capsules::{Reader, reader, unreadable};
use crate::session::encoded_headers;

/// Number of rows that are encoded at a time.
const ROWS_MAX: usize = 16 * 1024;

/// Rows of a table as messages, read as they are sent.
#[pyclass(frozen, module = "headrace_core")]
pub(super) struct TableReader {
    plan: Plan,
    added: Vec<AddedHeader>,
    stores_key: bool,
    state: Mutex<State>,
}

struct State {
    reader: Reader,
    /// Rows of the record batch that is being sent.
    open: Option<RecordBatch>,
    /// Number of rows that were read.
    read: u64,
}

impl State {
    /// The next rows of the table.
    fn next(&mut self) -> PyResult<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.open.take().filter(|batch| batch.num_rows() > 0) {
                let rows = batch.num_rows().min(ROWS_MAX);
                self.open = Some(batch.slice(rows, batch.num_rows() - rows));
                return Ok(Some(batch.slice(0, rows)));
            }
            match self.reader.next() {
                Some(batch) => self.open = Some(batch.map_err(unreadable)?),
                None => return Ok(None),
            }
        }
    }
}

#[pymethods]
impl TableReader {
    #[expect(clippy::too_many_arguments, reason = "columns by name")]
    #[new]
    #[pyo3(signature = (
        table, *, codec = None, payload = None, key = None, headers = None, id = None, partition = None,
        added = None, stores_key = true
    ))]
    fn new(
        table: &Bound<'_, PyAny>,
        codec: Option<&str>,
        payload: Option<String>,
        key: Option<String>,
        headers: Option<String>,
        id: Option<String>,
        partition: Option<String>,
        added: Option<&Bound<'_, PyDict>>,
        stores_key: bool,
    ) -> PyResult<Self> {
        let codec = codec.map(|name| {
            Codec::named(name).ok_or_else(|| {
                PyValueError::new_err(format!("codec: {name:?} is none of \"json\" and \"arrow\""))
            })
        });
        let naming = Naming {
            codec: codec.transpose()?,
            payload,
            key,
            headers,
            id,
            partition,
        };
        let reader = reader(table)?;
        let plan = Plan::new(&reader.schema(), &naming)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let added = added.into_iter().flatten().map(|(name, value)| {
            let mut encoded = Vec::new();
            let single = PyDict::new(name.py());
            single.set_item(&name, value)?;
            encoded_headers(None, Some(&single), &mut encoded)?;
            let name = name.extract()?;
            Ok(AddedHeader { name, encoded })
        });
        Ok(Self {
            plan,
            added: added.collect::<PyResult<_>>()?,
            stores_key,
            state: Mutex::new(State {
                reader,
                open: None,
                read: 0,
            }),
        })
    }

    /// Read the next rows, and encode them.
    fn next(&self, python: Python<'_>) -> PyResult<Option<TableRows>> {
        // The table may be of Python, which its library then calls.
        python.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(batch) = state.next()? else {
                return Ok(None);
            };
            let first_row = state.read;
            state.read += batch.num_rows() as u64;
            let rows = Rows::new(&self.plan, &batch, first_row, &self.added, self.stores_key)
                .map_err(|error: Error| PyValueError::new_err(error.to_string()))?;
            Ok(Some(TableRows { rows, first_row }))
        })
    }
}

/// Some rows of a table, encoded.
#[pyclass(frozen, module = "headrace_core")]
pub(crate) struct TableRows {
    pub(crate) rows: Rows,
    pub(crate) first_row: u64,
}

#[pymethods]
impl TableRows {
    fn __len__(&self) -> usize {
        self.rows.len()
    }
}
