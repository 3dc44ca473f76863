//! Rows of record batches as messages.

use arrow_array::{Array, ArrayRef, RecordBatch, cast::AsArray, types};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use headrace_columns::KEY_HEADER;
use headrace_model::limits::USER_HEADERS_SIZE_BYTES_MAX;
use headrace_wire::headers::{self, Value};

use crate::bytes::Bytes;
use crate::error::{ColumnError, RowError, RowProblem};
use crate::headers::Lists;
use crate::payloads::{self, Payloads, Values};
use crate::plan::{AddedHeader, Payload, Plan};

/// Error for rows that cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A column is wrong.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// A value is wrong.
    #[error(transparent)]
    Row(#[from] RowError),
}

/// A row as a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// Partition that the row names.
    pub partition: Option<u32>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// Id of the message; 0: the server draws one.
    pub id: u128,
    /// The payload.
    pub payload: &'a [u8],
    /// User headers, encoded, with the key if it is stored.
    pub headers: &'a [u8],
}

/// Rows of a table, all of which can be messages.
#[derive(Debug)]
pub struct Rows {
    payloads: Payloads,
    keys: Option<Bytes>,
    headers: Option<Values>,
    ids: Vec<u128>,
    partitions: Vec<Option<u32>>,
}

impl Rows {
    /// Read the rows of a record batch; `first_row` is the number of its first one in the table.
    pub fn new(
        plan: &Plan,
        batch: &RecordBatch,
        first_row: u64,
        added: &[AddedHeader],
        stores_key: bool,
    ) -> Result<Self, Error> {
        let schema = batch.schema_ref();
        let column = |index: Option<usize>| index.map(|index| batch.column(index));
        let payloads = match &plan.payload {
            Payload::Column(index) => Payloads::Column(bytes("payload", batch, *index)?),
            Payload::Json(columns) => {
                let objects = batch.project(columns).map_err(ColumnError::from)?;
                Payloads::Encoded(payloads::json(&objects)?)
            }
            Payload::Arrow => {
                let mut streams = Values::default();
                payloads::arrow(batch, &mut streams)?;
                Payloads::Encoded(streams)
            }
        };
        let error = |index: Option<usize>| {
            move |(row, problem): (usize, RowProblem)| RowError {
                row: first_row + row as u64,
                column: Plan::name(index, schema),
                problem,
            }
        };
        let count = payloads.len();
        let payload = match plan.payload {
            Payload::Column(index) => Some(index),
            Payload::Json(_) | Payload::Arrow => None,
        };
        each(count, |row| payloads.check(row)).map_err(error(payload))?;
        let keys = plan.key.map(|index| bytes("key", batch, index));
        let keys = keys.transpose()?;
        if let Some(keys) = &keys {
            each(count, |row| check_key(keys.get(row))).map_err(error(plan.key))?;
        }
        let lists = column(plan.headers).map(Lists::of);
        let lists = lists.flatten();
        let stored = keys.as_ref().filter(|_| stores_key);
        let headers = if lists.is_none() && stored.is_none() && added.is_empty() {
            None
        } else {
            let mut encoded = Values::default();
            each(count, |row| {
                let key = stored.and_then(|keys| keys.get(row));
                write_headers(row, key, lists.as_ref(), added, &mut encoded)
            })
            .map_err(error(plan.headers))?;
            Some(encoded)
        };
        let ids = column(plan.id).map_or(Ok(Vec::new()), ids);
        let partitions = column(plan.partition).map_or(Ok(Vec::new()), partitions);
        Ok(Self {
            payloads,
            keys,
            headers,
            ids: ids.map_err(error(plan.id))?,
            partitions: partitions.map_err(error(plan.partition))?,
        })
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.payloads.len()
    }

    /// Return whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return a message, by its number.
    #[inline]
    pub fn get(&self, row: usize) -> Row<'_> {
        Row {
            partition: self.partitions.get(row).copied().flatten(),
            key: self.keys.as_ref().and_then(|keys| keys.get(row)),
            id: self.ids.get(row).copied().unwrap_or(0),
            payload: self.payloads.get(row),
            headers: self.headers.as_ref().map_or(&[], |values| values.get(row)),
        }
    }
}

fn bytes(role: &'static str, batch: &RecordBatch, index: usize) -> Result<Bytes, ColumnError> {
    let column = batch.column(index);
    Bytes::of(column).ok_or_else(|| ColumnError::Type {
        role,
        name: batch.schema_ref().field(index).name().clone(),
        found: column.data_type().clone(),
        taken: crate::bytes::BYTES,
    })
}

fn each(
    count: usize,
    mut work: impl FnMut(usize) -> Result<(), RowProblem>,
) -> Result<(), (usize, RowProblem)> {
    (0..count).try_for_each(|row| work(row).map_err(|problem| (row, problem)))
}

fn check_key(key: Option<&[u8]>) -> Result<(), RowProblem> {
    match key.map(<[u8]>::len) {
        None | Some(1..=255) => Ok(()),
        Some(bytes) => Err(RowProblem::Key { bytes }),
    }
}

fn write_headers(
    row: usize,
    key: Option<&[u8]>,
    lists: Option<&Lists>,
    added: &[AddedHeader],
    out: &mut Values,
) -> Result<(), RowProblem> {
    let encoded = out.begin();
    if let Some(key) = key {
        let bytes = key.len();
        headers::push(Value::Text(KEY_HEADER), Value::Raw(key), encoded)
            .map_err(|_| RowProblem::Key { bytes })?;
    }
    if let Some(lists) = lists {
        lists.write(row, encoded)?;
    }
    for header in added {
        if !lists.is_some_and(|lists| lists.has(row, &header.name)) {
            encoded.extend_from_slice(&header.encoded);
        }
    }
    let bytes = out.end();
    if bytes > USER_HEADERS_SIZE_BYTES_MAX as usize {
        return Err(RowProblem::HeadersTooBig { bytes });
    }
    Ok(())
}

/// Numbers of a column of integers, wider than they were.
fn integers<T: types::ArrowPrimitiveType>(
    column: &ArrayRef,
    kind: &DataType,
) -> Option<arrow_array::PrimitiveArray<T>> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let wide = cast_with_options(column, kind, &strict).ok()?;
    Some(wide.as_primitive_opt::<T>()?.clone())
}

fn ids(column: &ArrayRef) -> Result<Vec<u128>, (usize, RowProblem)> {
    if *column.data_type() == DataType::UInt64 {
        let numbers = column.as_primitive::<types::UInt64Type>().iter();
        return Ok(numbers.map(|id| id.unwrap_or(0).into()).collect());
    }
    if column.data_type().is_integer() {
        let numbers = integers::<types::Int64Type>(column, &DataType::Int64);
        let numbers = numbers
            .into_iter()
            .flat_map(|numbers| numbers.iter().collect::<Vec<_>>());
        let ids = numbers.enumerate().map(|(row, id)| {
            let id = id.unwrap_or(0);
            u128::try_from(id).map_err(|_| (row, RowProblem::NegativeId { id }))
        });
        return ids.collect();
    }
    let values = Bytes::of(column);
    let ids = (0..column.len()).map(|row| {
        let Some(id) = values.as_ref().and_then(|values| values.get(row)) else {
            return Ok(0);
        };
        let bytes = id.len();
        let id = id
            .try_into()
            .map_err(|_| (row, RowProblem::IdBytes { bytes }))?;
        Ok(u128::from_le_bytes(id))
    });
    ids.collect()
}

fn partitions(column: &ArrayRef) -> Result<Vec<Option<u32>>, (usize, RowProblem)> {
    if *column.data_type() == DataType::UInt64 {
        let numbers = column
            .as_primitive::<types::UInt64Type>()
            .iter()
            .enumerate();
        let found = numbers.map(|(row, partition)| {
            let narrow = |wide| {
                let partition = i64::try_from(wide).unwrap_or(i64::MAX);
                u32::try_from(wide).map_err(|_| (row, RowProblem::Partition { partition }))
            };
            partition.map(narrow).transpose()
        });
        return found.collect();
    }
    let numbers = integers::<types::Int64Type>(column, &DataType::Int64);
    let numbers = numbers
        .into_iter()
        .flat_map(|numbers| numbers.iter().collect::<Vec<_>>());
    let found = numbers.enumerate().map(|(row, partition)| {
        let narrow = |partition| {
            u32::try_from(partition).map_err(|_| (row, RowProblem::Partition { partition }))
        };
        partition.map(narrow).transpose()
    });
    found.collect()
}
