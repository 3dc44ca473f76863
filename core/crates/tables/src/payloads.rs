//! Payloads: a column of them, or rows that a codec has encoded.

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_json::writer::{LineDelimited, WriterBuilder};
use arrow_schema::ArrowError;
use headrace_model::limits::PAYLOAD_SIZE_BYTES_MAX;

use crate::bytes::Bytes;
use crate::error::{ColumnError, RowProblem};

/// Size in bytes that a message of several rows does not exceed, unless a single row does.
const ARROW_MESSAGE_BYTES: usize = 512 * 1024;

/// Payloads of messages.
#[derive(Debug)]
pub(crate) enum Payloads {
    Column(Bytes),
    Encoded(Values),
}

/// Byte strings back to back.
#[derive(Debug, Default)]
pub(crate) struct Values {
    data: Vec<u8>,
    /// Start and end of each.
    places: Vec<(usize, usize)>,
}

impl Values {
    /// Begin the next value: it is appended to the data, and ended by [`Self::end`].
    pub(crate) fn begin(&mut self) -> &mut Vec<u8> {
        &mut self.data
    }

    /// End a value, and return its size in bytes.
    pub(crate) fn end(&mut self) -> usize {
        let start = self.places.last().map_or(0, |place| place.1);
        self.places.push((start, self.data.len()));
        self.data.len() - start
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &[u8] {
        let (start, end) = self.places[index];
        &self.data[start..end]
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}

impl Payloads {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Column(values) => values.len(),
            Self::Encoded(values) => values.len(),
        }
    }

    /// Return a payload that [`Self::check`] has accepted.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> &[u8] {
        match self {
            Self::Column(values) => values.get(row).unwrap_or_default(),
            Self::Encoded(values) => values.get(row),
        }
    }

    pub(crate) fn check(&self, row: usize) -> Result<(), RowProblem> {
        let payload = match self {
            Self::Column(values) => values.get(row).ok_or(RowProblem::NoPayload)?,
            Self::Encoded(values) => values.get(row),
        };
        if payload.len() > PAYLOAD_SIZE_BYTES_MAX as usize {
            let bytes = payload.len();
            return Err(RowProblem::PayloadTooBig { bytes });
        }
        Ok(())
    }
}

/// Encode each row as a JSON object, with a null for each value that is.
pub(crate) fn json(batch: &RecordBatch) -> Result<Values, ColumnError> {
    let data = lines(batch).map_err(|error| unfit(batch, error))?;
    let ends = data.iter().enumerate();
    let ends = ends.filter_map(|(place, byte)| (*byte == b'\n').then_some(place));
    let mut start = 0;
    let places = ends.map(|end| (std::mem::replace(&mut start, end + 1), end));
    let places = places.collect();
    Ok(Values { data, places })
}

/// Encode rows as lines: a line feed within a text is written as an escape sequence.
fn lines(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let builder = WriterBuilder::new().with_explicit_nulls(true);
    let mut writer = builder.build::<_, LineDelimited>(Vec::new());
    writer.write(batch)?;
    writer.finish()?;
    Ok(writer.into_inner())
}

/// Name the column that the codec refuses.
fn unfit(batch: &RecordBatch, error: ArrowError) -> ColumnError {
    for (index, field) in batch.schema_ref().fields().iter().enumerate() {
        let refused = batch.project(&[index]).and_then(|column| lines(&column));
        if let Err(error) = refused {
            return ColumnError::Codec {
                name: field.name().clone(),
                kind: field.data_type().clone(),
                reason: error.to_string(),
            };
        }
    }
    ColumnError::Arrow(error)
}

/// Encode rows as Arrow IPC streams, each with as many rows as a message is to have.
pub(crate) fn arrow(batch: &RecordBatch, out: &mut Values) -> Result<(), ColumnError> {
    let rows = batch.num_rows();
    if rows == 0 {
        return Ok(());
    }
    let start = out.data.len();
    {
        let mut writer = StreamWriter::try_new(out.begin(), batch.schema_ref())?;
        writer.write(batch)?;
        writer.finish()?;
    }
    if out.data.len() - start > ARROW_MESSAGE_BYTES && rows > 1 {
        out.data.truncate(start);
        arrow(&batch.slice(0, rows / 2), out)?;
        return arrow(&batch.slice(rows / 2, rows - rows / 2), out);
    }
    out.end();
    Ok(())
}
