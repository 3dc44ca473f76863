//! Definition of areas.

use crate::frame::Command;
use crate::frame::HEADER_BYTES;
use crate::frame::Reject;

/// Offset of the area in the header.
pub(crate) const AREA_OFFSET: usize = 128;

/// Area of one command, or of any.
pub trait CommandArea: Copy {
    /// Command to which the area belongs.
    fn command(&self) -> Command;

    /// Write the fields at their offsets in `header`, whose area is zero.
    fn encode(&self, header: &mut [u8; HEADER_BYTES]);

    /// Read and check the fields of `command` in `header`.
    fn decode(command: Command, header: &[u8; HEADER_BYTES]) -> Result<Self, Reject>;
}

/// Define the area of one command: its fields with their offsets from the start of the header.
macro_rules! area {
    (
        $(#[$attribute:meta])*
        $name:ident {
            $( $(#[$field_attribute:meta])* $field:ident: $kind:ty = $offset:literal, )+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_attribute])* pub $field: $kind, )+
        }

        #[cfg(test)]
        impl $name {
            /// Offset and length of each field.
            pub(super) const FIELDS: &[(usize, usize)] = &[ $( ($offset, size_of::<$kind>()), )+ ];
        }

        impl crate::frame::CommandArea for $name {
            fn command(&self) -> crate::frame::Command {
                crate::frame::Command::$name
            }

            fn encode(&self, header: &mut [u8; crate::frame::HEADER_BYTES]) {
                $( crate::frame::field::Field::put(self.$field, &mut header[$offset..]); )+
            }

            fn decode(
                command: crate::frame::Command,
                header: &[u8; crate::frame::HEADER_BYTES],
            ) -> Result<Self, crate::frame::Reject> {
                if command != crate::frame::Command::$name {
                    return Err(crate::frame::Reject::Command);
                }
                let area = Self {
                    $( $field: <$kind as crate::frame::field::Field>::get(&header[$offset..])?, )+
                };
                // Bytes between the fields must be zero: this makes the encoding unique.
                let mut again = [0; crate::frame::HEADER_BYTES];
                area.encode(&mut again);
                if again[super::definition::AREA_OFFSET..] != header[super::definition::AREA_OFFSET..] {
                    return Err(crate::frame::Reject::Reserved);
                }
                Ok(area)
            }
        }
    };
}

/// Define numbered values for one byte of an area.
macro_rules! reasons {
    (
        $(#[$attribute:meta])*
        $name:ident { $( $(#[$value_attribute:meta])* $value:ident = $code:literal, )+ }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            #[default]
            $( $(#[$value_attribute])* $value = $code, )+
        }

        impl crate::frame::field::Field for $name {
            fn put(self, bytes: &mut [u8]) {
                bytes[0] = self as u8;
            }

            fn get(bytes: &[u8]) -> Result<Self, crate::frame::Reject> {
                match bytes[0] {
                    $( $code => Ok(Self::$value), )+
                    _ => Err(crate::frame::Reject::Area),
                }
            }
        }
    };
}

pub(crate) use {area, reasons};
