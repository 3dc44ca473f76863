//! Columns of messages as record batches.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, Int32Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions,
    StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use headrace_columns::{Array, Buffer, Column, decode::Batch};

/// Time zone of timestamps.
const UTC: &str = "UTC";

/// Return the schema of these columns.
pub fn schema(columns: &[Column]) -> SchemaRef {
    let fields = columns.iter().map(|column| field(*column));
    Arc::new(Schema::new(fields.collect::<Fields>()))
}

fn field(column: Column) -> Field {
    let time = || DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()));
    let (kind, is_nullable) = match column {
        Column::Stream | Column::Topic => (DataType::Utf8, false),
        Column::Partition => (DataType::Int32, false),
        Column::Offset => (DataType::Int64, false),
        Column::Timestamp => (time(), false),
        Column::OriginTimestamp => (time(), true),
        Column::Id | Column::Value => (DataType::Binary, false),
        Column::Key => (DataType::Binary, true),
        Column::Headers => (DataType::List(Arc::new(pair_field())), true),
    };
    Field::new(column.name(), kind, is_nullable)
}

fn pair_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Binary, false),
    ])
}

fn pair_field() -> Field {
    Field::new("element", DataType::Struct(pair_fields()), false)
}

/// Wrap decoded columns, in the order in which they were asked for; their memory is not copied.
pub fn record_batch(columns: &[Column], batch: Batch) -> RecordBatch {
    let arrays = columns.iter().zip(batch.columns);
    let arrays = arrays.map(|(column, array)| wrapped(*column, array));
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.rows));
    RecordBatch::try_new_with_options(schema(columns), arrays.collect(), &rows)
        .expect("the decoder makes columns of these types and of one length")
}

fn wrapped(column: Column, array: Array) -> ArrayRef {
    let parts = Parts::from(array);
    match column {
        Column::Stream | Column::Topic => parts.texts(),
        Column::Partition => Arc::new(Int32Array::new(parts.int32s(), None)),
        Column::Offset => Arc::new(Int64Array::new(parts.int64s(), None)),
        Column::Timestamp | Column::OriginTimestamp => {
            let nulls = parts.nulls.clone();
            let times = TimestampMicrosecondArray::new(parts.int64s(), nulls);
            Arc::new(times.with_timezone(UTC))
        }
        Column::Id | Column::Key | Column::Value => parts.binary(),
        Column::Headers => parts.pairs(),
    }
}

/// An array of the decoder: its nulls, its other buffers, and its child arrays.
struct Parts {
    nulls: Option<NullBuffer>,
    buffers: std::vec::IntoIter<Option<Buffer>>,
    children: Vec<Array>,
}

impl From<Array> for Parts {
    fn from(array: Array) -> Self {
        let mut buffers = array.buffers.into_iter();
        let nulls = buffers.next().flatten().map(|validity| {
            let bits = BooleanBuffer::new(shared(validity), 0, array.length);
            NullBuffer::new(bits)
        });
        Self {
            nulls,
            buffers,
            children: array.children,
        }
    }
}

impl Parts {
    fn next(&mut self) -> Option<Buffer> {
        self.buffers.next().flatten()
    }

    fn int32s(mut self) -> ScalarBuffer<i32> {
        int32s(self.next())
    }

    fn int64s(mut self) -> ScalarBuffer<i64> {
        match self.next() {
            Some(Buffer::Int64(values)) => values.into(),
            _ => Vec::new().into(),
        }
    }

    fn positions(&mut self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(int32s(self.next()))
    }

    fn data(&mut self) -> arrow_buffer::Buffer {
        self.next().map(shared).unwrap_or_default()
    }

    fn binary(mut self) -> ArrayRef {
        let (positions, data) = (self.positions(), self.data());
        Arc::new(BinaryArray::new(positions, data, self.nulls))
    }

    fn texts(mut self) -> ArrayRef {
        let (positions, data) = (self.positions(), self.data());
        Arc::new(StringArray::new(positions, data, self.nulls))
    }

    fn pairs(mut self) -> ArrayRef {
        let positions = self.positions();
        let fields = self.children.into_iter().flat_map(|pairs| pairs.children);
        let mut fields = fields.map(Self::from);
        let mut next = || fields.next().expect("a pair has a key and a value");
        let values = vec![next().texts(), next().binary()];
        let pairs = StructArray::new(pair_fields(), values, None);
        Arc::new(ListArray::new(
            Arc::new(pair_field()),
            positions,
            Arc::new(pairs),
            self.nulls,
        ))
    }
}

fn int32s(buffer: Option<Buffer>) -> ScalarBuffer<i32> {
    match buffer {
        Some(Buffer::Int32(values)) => values.into(),
        _ => Vec::new().into(),
    }
}

/// Take over the memory of a buffer.
fn shared(buffer: Buffer) -> arrow_buffer::Buffer {
    match buffer {
        Buffer::Bytes(bytes) => bytes.into(),
        Buffer::Int32(values) => arrow_buffer::Buffer::from_vec(values),
        Buffer::Int64(values) => arrow_buffer::Buffer::from_vec(values),
    }
}

/// Error for a schema that messages cannot be given in.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No column has this name.
    #[error("column {name:?} is none of {}", Column::ALL.map(Column::name).join(", "))]
    Unknown {
        /// Name of the field.
        name: String,
    },
    /// The column cannot have the type.
    #[error("column {name:?} is {kind}, and cannot be given as {requested}")]
    Type {
        /// Name of the field.
        name: String,
        /// Type that the column has.
        kind: DataType,
        /// Type of the field.
        requested: DataType,
    },
    /// A value does not fit the type.
    #[error(transparent)]
    Value(#[from] ArrowError),
}

/// Return the columns that a schema asks for. Whether their values fit is seen in [`conformed`].
pub fn requested(schema: &Schema) -> Result<Vec<Column>, RequestError> {
    let columns = schema.fields().iter().map(|asked| {
        let name = asked.name();
        let column =
            Column::named(name).ok_or_else(|| RequestError::Unknown { name: name.clone() })?;
        let kind = field(column).data_type().clone();
        if can_cast_types(&kind, asked.data_type()) {
            return Ok(column);
        }
        Err(RequestError::Type {
            name: name.clone(),
            kind,
            requested: asked.data_type().clone(),
        })
    });
    columns.collect()
}

/// Convert a record batch of [`requested`] columns to the types of the schema.
pub fn conformed(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, RequestError> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let columns = batch.columns().iter().zip(schema.fields());
    let columns =
        columns.map(|(column, field)| cast_with_options(column, field.data_type(), &strict));
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<_, _>>()?;
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &rows,
    )?)
}
