//! Reading of arrays in the way an Arrow library does.

use headrace_columns::{Array, Buffer, Column, decode::Batch};

use crate::messages::{PARTITION, Said};

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Number(i64),
    Bytes(Vec<u8>),
    Pairs(Vec<(String, Vec<u8>)>),
}

/// Values of a column, after a check of its layout.
pub(crate) fn cells(column: Column, array: &Array) -> Vec<Cell> {
    let cells: Vec<Cell> = match column {
        Column::Stream | Column::Topic | Column::Id | Column::Key | Column::Value => {
            binary(array).into_iter().map(Cell::Bytes).collect()
        }
        Column::Partition => {
            let Some(Buffer::Int32(values)) = &array.buffers[1] else {
                panic!("32 bits")
            };
            values
                .iter()
                .map(|&value| Cell::Number(value.into()))
                .collect()
        }
        Column::Offset | Column::Timestamp | Column::OriginTimestamp => {
            let Some(Buffer::Int64(values)) = &array.buffers[1] else {
                panic!("64 bits")
            };
            values.iter().copied().map(Cell::Number).collect()
        }
        Column::Headers => lists(array),
    };
    assert_eq!(cells.len(), array.length);
    let there = there(array);
    cells
        .into_iter()
        .zip(there)
        .map(|(cell, there)| if there { cell } else { Cell::Null })
        .collect()
}

fn there(array: &Array) -> Vec<bool> {
    let Some(bits) = &array.buffers[0] else {
        assert_eq!(array.null_count, 0);
        return vec![true; array.length];
    };
    let bits = bits.as_bytes();
    assert_eq!(bits.len(), array.length.div_ceil(8));
    let there: Vec<bool> = (0..array.length)
        .map(|index| bits[index / 8] >> (index % 8) & 1 == 1)
        .collect();
    assert_eq!(
        there.iter().filter(|&&there| !there).count(),
        array.null_count
    );
    assert!(
        array.null_count > 0,
        "bits are left out when nothing is null"
    );
    there
}

fn positions(array: &Array, end: usize) -> Vec<usize> {
    let Some(Buffer::Int32(positions)) = &array.buffers[1] else {
        panic!("positions of 32 bits")
    };
    let positions: Vec<usize> = positions
        .iter()
        .map(|&position| usize::try_from(position).expect("not negative"))
        .collect();
    assert_eq!(positions.len(), array.length + 1);
    assert_eq!((positions[0], positions[array.length]), (0, end));
    assert!(positions.is_sorted());
    positions
}

fn binary(array: &Array) -> Vec<Vec<u8>> {
    let data = array.buffers[2].as_ref().expect("data").as_bytes();
    let positions = positions(array, data.len());
    positions
        .windows(2)
        .map(|ends| data[ends[0]..ends[1]].to_vec())
        .collect()
}

fn lists(array: &Array) -> Vec<Cell> {
    let pairs = &array.children[0];
    assert_eq!((pairs.null_count, &pairs.buffers), (0, &vec![None]));
    let [keys, values] = &pairs.children[..] else {
        panic!("a key and a value")
    };
    assert_eq!((keys.length, values.length), (pairs.length, pairs.length));
    let keys = binary(keys)
        .into_iter()
        .map(|key| String::from_utf8(key).expect("a text"));
    let pairs: Vec<_> = keys.zip(binary(values)).collect();
    let positions = positions(array, pairs.len());
    positions
        .windows(2)
        .map(|ends| Cell::Pairs(pairs[ends[0]..ends[1]].to_vec()))
        .collect()
}

/// Expected value of a column for a message.
pub(crate) fn expected(column: Column, said: &Said, offset: u64) -> Cell {
    let number = |value: u64| i64::try_from(value).map_or(Cell::Null, Cell::Number);
    match column {
        Column::Stream => Cell::Bytes(b"shop".to_vec()),
        Column::Topic => Cell::Bytes(b"orders".to_vec()),
        Column::Partition => Cell::Number(PARTITION.into()),
        Column::Offset => number(offset),
        Column::Timestamp => Cell::Number(said.timestamp),
        Column::OriginTimestamp => number(said.origin_timestamp),
        Column::Id => Cell::Bytes(said.id.to_le_bytes().to_vec()),
        Column::Key => said.key.clone().map_or(Cell::Null, Cell::Bytes),
        Column::Value => Cell::Bytes(said.payload.clone()),
        Column::Headers => Cell::Pairs(said.headers.clone()),
    }
}

/// Assert that batches contain exactly the messages `said`, from the first offset on.
pub(crate) fn assert_says(columns: &[Column], batches: &[Batch], said: &[Said], first_offset: u64) {
    let mut row = 0;
    for batch in batches {
        assert_eq!(batch.first_offset, first_offset + row as u64);
        assert_eq!(batch.columns.len(), columns.len());
        let said = &said[row..row + batch.rows];
        for (&column, array) in columns.iter().zip(&batch.columns) {
            let expected: Vec<Cell> = said
                .iter()
                .zip(batch.first_offset..)
                .map(|(said, offset)| expected(column, said, offset))
                .collect();
            assert_eq!(cells(column, array), expected, "{column:?}");
        }
        row += batch.rows;
    }
    assert_eq!(row, said.len());
}
