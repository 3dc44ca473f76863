//! Columns of user headers: lists of names and values.

use arrow_array::{
    Array, ArrayRef, LargeListArray, ListArray, MapArray, StructArray, cast::AsArray,
};
use arrow_schema::{DataType, FieldRef};
use headrace_columns::KEY_HEADER;
use headrace_wire::headers::{self, Value};

use crate::bytes::Bytes;
use crate::error::RowProblem;

/// Names of the types that [`Lists`] takes.
pub(crate) const LISTS: &str = "lists of structs of a name (string) and a value (string or binary), and maps from string to string or binary";

#[derive(Debug)]
enum Ranges {
    Small(ListArray),
    Large(LargeListArray),
    Map(MapArray),
}

/// A column of headers.
#[derive(Debug)]
pub(crate) struct Lists {
    ranges: Ranges,
    pairs: StructArray,
    names: Bytes,
    values: Bytes,
    /// Values are texts, and not bytes.
    is_text: bool,
}

fn pair(kind: &DataType) -> Option<(&FieldRef, &FieldRef)> {
    let (DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _)) = kind else {
        return None;
    };
    let DataType::Struct(fields) = item.data_type() else {
        return None;
    };
    let [name, value] = &**fields else {
        return None;
    };
    Some((name, value))
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

impl Lists {
    pub(crate) fn takes(kind: &DataType) -> bool {
        pair(kind).is_some_and(|(name, value)| {
            is_text(name.data_type()) && Bytes::takes(value.data_type())
        })
    }

    /// Read a column; `None` if its type is another.
    pub(crate) fn of(column: &ArrayRef) -> Option<Self> {
        let (_, value) = pair(column.data_type())?;
        let is_text = is_text(value.data_type());
        let (ranges, pairs) = match column.data_type() {
            DataType::List(_) => {
                let lists = column.as_list::<i32>().clone();
                let pairs = lists.values().as_struct_opt()?.clone();
                (Ranges::Small(lists), pairs)
            }
            DataType::LargeList(_) => {
                let lists = column.as_list::<i64>().clone();
                let pairs = lists.values().as_struct_opt()?.clone();
                (Ranges::Large(lists), pairs)
            }
            _ => {
                let maps = column.as_map_opt()?.clone();
                let pairs = maps.entries().clone();
                (Ranges::Map(maps), pairs)
            }
        };
        Some(Self {
            names: Bytes::of(pairs.column(0))?,
            values: Bytes::of(pairs.column(1))?,
            ranges,
            pairs,
            is_text,
        })
    }

    fn range(&self, row: usize) -> std::ops::Range<usize> {
        let place = |start: i64, end: i64| {
            usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0)
        };
        match &self.ranges {
            Ranges::Small(lists) if lists.is_valid(row) => {
                let ends = lists.value_offsets();
                place(ends[row].into(), ends[row + 1].into())
            }
            Ranges::Large(lists) if lists.is_valid(row) => {
                let ends = lists.value_offsets();
                place(ends[row], ends[row + 1])
            }
            Ranges::Map(maps) if maps.is_valid(row) => {
                let ends = maps.value_offsets();
                place(ends[row].into(), ends[row + 1].into())
            }
            _ => 0..0,
        }
    }

    /// Append the headers of a row. A list that is null has none.
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), RowProblem> {
        for index in self.range(row) {
            let pair = self.pairs.is_valid(index).then(|| self.names.get(index));
            let pair = pair.flatten().zip(self.values.get(index));
            let (name, value) = pair.ok_or(RowProblem::NullHeader)?;
            let name = str::from_utf8(name).map_err(|_| RowProblem::NameNoText)?;
            if name == KEY_HEADER {
                return Err(RowProblem::Reserved);
            }
            let text = self.is_text.then(|| str::from_utf8(value).ok()).flatten();
            let typed = text.map_or(Value::Raw(value), Value::Text);
            headers::push(Value::Text(name), typed, out).map_err(|_| RowProblem::Header {
                name: name.to_owned(),
                name_bytes: name.len(),
                value_bytes: value.len(),
            })?;
        }
        Ok(())
    }

    /// Return whether a row has a header of this name.
    pub(crate) fn has(&self, row: usize, name: &str) -> bool {
        self.range(row)
            .any(|index| self.names.get(index) == Some(name.as_bytes()))
    }
}
