//! Layouts of what partitions are asked and answer: one line for a type, and one for a kind of request or response, from
//! which both directions follow.

use alloc::vec::Vec;

use headrace_model::{Offset, StageId};
use headrace_partition::{
    ConsumerKey, Level, RangePlan, RangeToPlan, Request, Response, Split, StoredOffset,
};
use headrace_wire::Malformed;

use super::fields::Fields;
use super::reader::Reader;

/// A value as a part of a frame.
trait Layout: Sized {
    fn write(&self, out: &mut Vec<u8>);
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed>;
}

/// Layouts of types by their fields, in the order on the link.
macro_rules! layouts {
    ($($type:ident { $($field:tt),+ })+) => {
        $(impl Layout for $type {
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$field.write(out);)+
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(Self { $($field: Layout::read(reader)?),+ })
            }
        })+
    };
}

layouts! {
    Offset { 0 }
    StageId { 0 }
    Level { end, bytes }
    StoredOffset { current, stored }
    RangeToPlan { start, end, target_bytes }
    RangePlan { first_offset, next_offset, splits }
    Split { offset, bytes }
}

macro_rules! numbers {
    ($($type:ident)+) => {
        $(impl Layout for $type {
            fn write(&self, out: &mut Vec<u8>) {
                out.$type(*self);
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                reader.$type()
            }
        })+
    };
}

numbers! { u32 u64 u128 bool }

/// Consumer whose offset is not changed.
impl Layout for ConsumerKey {
    fn write(&self, out: &mut Vec<u8>) {
        out.consumer(Some(*self), None);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.consumer()
    }
}

/// Items up to the end of the frame.
impl<T: Layout> Layout for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.len() * size_of::<T>());
        for item in self {
            item.write(out);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut items = Self::with_capacity(reader.remaining() / size_of::<T>());
        while reader.remaining() > 0 {
            items.push(T::read(reader)?);
        }
        Ok(items)
    }
}

/// Kinds of an enumeration, each one byte before its fields. Others are written and read by the callers.
macro_rules! kinds {
    (
        $enumeration:ident: $write:ident, $read:ident;
        $($code:literal = $kind:ident $(($content:ident))? $({ $($field:ident),+ })?,)+
        by the callers: $($other:ident),+
    ) => {
        pub(super) fn $write(out: &mut Vec<u8>, value: &$enumeration) {
            match value {
                $($enumeration::$kind $(($content))? $({ $($field),+ })? => {
                    out.u8($code);
                    $($content.write(out);)?
                    $($($field.write(out);)+)?
                })+
                $($enumeration::$other { .. })|+ => unreachable!("the caller writes it"),
            }
        }

        pub(super) fn $read(kind: u8, reader: &mut Reader<'_>) -> Result<$enumeration, Malformed> {
            Ok(match kind {
                $($code => {
                    $(let $content = Layout::read(reader)?;)?
                    $($(let $field = Layout::read(reader)?;)+)?
                    $enumeration::$kind $(($content))? $({ $($field),+ })?
                })+
                kind => return Err(Malformed::UnknownCode(kind)),
            })
        }
    };
}

kinds! {
    Request: write_request, read_request;
    3 = GetOffset { consumer },
    6 = Flush { fsync },
    7 = DeleteSegments { count },
    8 = PlanRange(range),
    by the callers: Append, Poll, StoreOffset, DeleteOffset, Stage
}

kinds! {
    Response: write_response, read_response;
    0 = Done,
    1 = Appended { base_offset, messages_count },
    3 = BelowMinimum(level),
    6 = Planned(plan),
    7 = Staged { stage, messages, bytes },
    by the callers: Polled, Offset
}
