//! Columns of a table, by what they are for.

use arrow_schema::{DataType, Field, Schema};
use headrace_columns::Column;

use crate::bytes::{BYTES, Bytes};
use crate::error::ColumnError;
use crate::headers::{LISTS, Lists};

/// Names of the types of ids.
const IDS: &str = "binary of 16 bytes and integers";
/// Names of the types of partitions.
const INTEGERS: &str = "integers";
/// Columns of a table of messages that the server writes.
const WRITTEN_BY_SERVER: [Column; 5] = [
    Column::Stream,
    Column::Topic,
    Column::Offset,
    Column::Timestamp,
    Column::OriginTimestamp,
];

/// Form of payloads that are made of all columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Each row is a JSON object.
    Json,
    /// Several rows are an Arrow IPC stream.
    Arrow,
}

impl Codec {
    /// Find the codec with this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "json" => Self::Json,
            "arrow" => Self::Arrow,
            _ => return None,
        })
    }
}

/// A header that every message is given, unless its row has one of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedHeader {
    /// Name of the header.
    pub name: String,
    /// Name and value, encoded.
    pub encoded: Vec<u8>,
}

/// Names of columns, by what they are for. Without a codec, a column that is not named here is found by its usual name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Naming {
    /// Form of the payloads; `None`: a column has them.
    pub codec: Option<Codec>,
    /// Payloads: `value` or `payload`.
    pub payload: Option<String>,
    /// Keys: `key`.
    pub key: Option<String>,
    /// User headers: `headers`.
    pub headers: Option<String>,
    /// Ids of messages: `id`.
    pub id: Option<String>,
    /// Partitions: `partition`.
    pub partition: Option<String>,
}

/// Columns of a table by what they are for, as their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub(crate) payload: Payload,
    pub(crate) key: Option<usize>,
    pub(crate) headers: Option<usize>,
    pub(crate) id: Option<usize>,
    pub(crate) partition: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Payload {
    Column(usize),
    /// Objects of these columns.
    Json(Vec<usize>),
    Arrow,
}

impl Plan {
    /// Find the columns, and check their types.
    pub fn new(schema: &Schema, naming: &Naming) -> Result<Self, ColumnError> {
        let find = Find {
            schema,
            by_usual_names: naming.codec.is_none(),
        };
        let is_id = |kind: &DataType| match kind {
            DataType::FixedSizeBinary(width) => *width == 16,
            kind => Bytes::takes(kind) && !is_text(kind) || kind.is_integer(),
        };
        let key = find.role("key", naming.key.as_ref(), Bytes::takes, BYTES)?;
        let headers = find.role("headers", naming.headers.as_ref(), Lists::takes, LISTS)?;
        let id = find.role("id", naming.id.as_ref(), is_id, IDS)?;
        let partition = find.role(
            "partition",
            naming.partition.as_ref(),
            DataType::is_integer,
            INTEGERS,
        )?;
        let properties = [headers, id, partition];
        if let (Some(name), Some(_)) = (&naming.payload, naming.codec) {
            return Err(ColumnError::PayloadAndCodec { name: name.clone() });
        }
        let payload = match naming.codec {
            None => Payload::Column(find.payload(naming.payload.as_ref())?),
            Some(Codec::Json) => {
                let columns = 0..schema.fields().len();
                let columns = columns.filter(|column| !properties.contains(&Some(*column)));
                Payload::Json(columns.collect())
            }
            Some(Codec::Arrow) => {
                for (role, column) in [
                    ("key", key),
                    ("headers", headers),
                    ("id", id),
                    ("partition", partition),
                ] {
                    if let Some(column) = column {
                        let name = schema.field(column).name().clone();
                        return Err(ColumnError::ManyRows { role, name });
                    }
                }
                Payload::Arrow
            }
        };
        let plan = Self {
            payload,
            key,
            headers,
            id,
            partition,
        };
        if let Payload::Column(payload) = plan.payload {
            let used = [Some(payload), key, headers, id, partition];
            find.check_unused(&used)?;
        }
        Ok(plan)
    }

    pub(crate) fn name(column: Option<usize>, schema: &Schema) -> String {
        column.map_or_else(String::new, |column| schema.field(column).name().clone())
    }
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_text(values),
        kind => kind.is_string(),
    }
}

struct Find<'a> {
    schema: &'a Schema,
    by_usual_names: bool,
}

impl Find<'_> {
    fn names(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// Find a column by its name; `None` if there is none.
    fn named(&self, role: &'static str, name: &str) -> Result<Option<usize>, ColumnError> {
        let fields = self.schema.fields().iter().enumerate();
        let mut found = fields.filter(|(_, field)| field.name() == name);
        let first = found.next().map(|(index, _)| index);
        if found.next().is_some() {
            let name = name.to_owned();
            return Err(ColumnError::Twice { role, name });
        }
        Ok(first)
    }

    fn given(&self, role: &'static str, name: &str) -> Result<usize, ColumnError> {
        self.named(role, name)?.ok_or_else(|| ColumnError::Missing {
            role,
            name: name.to_owned(),
            names: self.names(),
        })
    }

    fn role(
        &self,
        role: &'static str,
        given: Option<&String>,
        fits: impl Fn(&DataType) -> bool,
        taken: &'static str,
    ) -> Result<Option<usize>, ColumnError> {
        let found = match given {
            Some(name) => Some(self.given(role, name)?),
            None if self.by_usual_names => self.named(role, role)?,
            None => None,
        };
        found
            .map(|index| self.checked(role, index, fits, taken))
            .transpose()
    }

    fn checked(
        &self,
        role: &'static str,
        index: usize,
        fits: impl Fn(&DataType) -> bool,
        taken: &'static str,
    ) -> Result<usize, ColumnError> {
        let field: &Field = self.schema.field(index);
        if fits(field.data_type()) {
            return Ok(index);
        }
        Err(ColumnError::Type {
            role,
            name: field.name().clone(),
            found: field.data_type().clone(),
            taken,
        })
    }

    fn payload(&self, given: Option<&String>) -> Result<usize, ColumnError> {
        const ROLE: &str = "payload";
        let index = match given {
            Some(name) => self.given(ROLE, name)?,
            None => match (self.named(ROLE, "value")?, self.named(ROLE, "payload")?) {
                (Some(_), Some(_)) => return Err(ColumnError::TwoPayloads),
                (Some(index), None) | (None, Some(index)) => index,
                (None, None) => {
                    let names = self.names();
                    return Err(ColumnError::NoPayload { names });
                }
            },
        };
        self.checked(ROLE, index, Bytes::takes, BYTES)
    }

    /// Refuse a table with a column that would be lost, unless it is one that the server writes.
    fn check_unused(&self, used: &[Option<usize>]) -> Result<(), ColumnError> {
        for (index, field) in self.schema.fields().iter().enumerate() {
            let is_written = WRITTEN_BY_SERVER
                .iter()
                .any(|column| column.name() == field.name());
            if !used.contains(&Some(index)) && !is_written {
                return Err(ColumnError::Unused {
                    name: field.name().clone(),
                    kind: field.data_type().clone(),
                });
            }
        }
        Ok(())
    }
}
