//! Columns of byte strings and texts, in any of Arrow's layouts.

use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
    cast::AsArray,
};
use arrow_cast::cast;
use arrow_schema::DataType;

/// Names of the types that [`Bytes`] takes.
pub(crate) const BYTES: &str = "binary and string, in any layout, and dictionaries of them";

/// A column of byte strings. Texts are their bytes in UTF-8.
#[derive(Debug)]
pub(crate) enum Bytes {
    Small(BinaryArray),
    Large(LargeBinaryArray),
    View(BinaryViewArray),
    Fixed(FixedSizeBinaryArray),
}

/// Type of byte strings that a column is read as, without copying its data unless it is a dictionary.
fn layout(kind: &DataType) -> Option<DataType> {
    Some(match kind {
        DataType::Binary | DataType::Utf8 => DataType::Binary,
        DataType::LargeBinary | DataType::LargeUtf8 => DataType::LargeBinary,
        DataType::BinaryView | DataType::Utf8View => DataType::BinaryView,
        DataType::FixedSizeBinary(width) => DataType::FixedSizeBinary(*width),
        DataType::Dictionary(_, values) => match layout(values)? {
            DataType::FixedSizeBinary(_) => return None,
            found => found,
        },
        _ => return None,
    })
}

impl Bytes {
    pub(crate) fn takes(kind: &DataType) -> bool {
        layout(kind).is_some()
    }

    /// Read a column; `None` if its type is another.
    pub(crate) fn of(column: &ArrayRef) -> Option<Self> {
        let kind = layout(column.data_type())?;
        let values = match column.data_type() {
            DataType::Dictionary(_, values) => cast(column, values).ok()?,
            _ => ArrayRef::clone(column),
        };
        let values = cast(&values, &kind).ok()?;
        Some(match kind {
            DataType::Binary => Self::Small(values.as_binary().clone()),
            DataType::LargeBinary => Self::Large(values.as_binary().clone()),
            DataType::BinaryView => Self::View(values.as_binary_view().clone()),
            _ => Self::Fixed(values.as_fixed_size_binary().clone()),
        })
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Small(values) => values.is_valid(row).then(|| values.value(row)),
            Self::Large(values) => values.is_valid(row).then(|| values.value(row)),
            Self::View(values) => values.is_valid(row).then(|| values.value(row)),
            Self::Fixed(values) => values.is_valid(row).then(|| values.value(row)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Small(values) => values.len(),
            Self::Large(values) => values.len(),
            Self::View(values) => values.len(),
            Self::Fixed(values) => values.len(),
        }
    }
}
