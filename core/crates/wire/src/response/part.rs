//! What every building block of a response can do.

use alloc::vec::Vec;

use crate::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// A building block of responses. Only the types of this crate have one.
pub trait Part<'a>: Sized {
    /// Take one off the reader.
    #[doc(hidden)]
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed>;

    #[doc(hidden)]
    fn write(&self, out: &mut Writer<'_>);
}

/// Decode one block that fills the whole payload.
pub(super) fn decode<'a, T: Part<'a>>(payload: &'a [u8]) -> Result<T, Malformed> {
    let mut reader = Reader::new(payload);
    let part = T::read(&mut reader)?;
    reader.finish()?;
    Ok(part)
}

/// Run `write` and insist that every value had an encoding.
pub(super) fn encode(out: &mut Vec<u8>, write: impl FnOnce(&mut Writer<'_>)) {
    let mut writer = Writer::new(out);
    write(&mut writer);
    assert!(
        writer.is_representable(),
        "names in responses are 1 to 255 bytes long"
    );
}

/// The public face of a [`Part`]: `decode` and `encode`.
macro_rules! payload {
    ($name:ident $(<$life:lifetime>)?) => {
        #[allow(clippy::elidable_lifetime_names, reason = "the same text serves types without a lifetime")]
        impl $(<$life>)? $name $(<$life>)? {
            /// Decode a payload that holds this and nothing after it.
            pub fn decode(payload: & $($life)? [u8]) -> Result<Self, $crate::Malformed> {
                $crate::response::part::decode(payload)
            }

            /// Append the encoding.
            ///
            /// # Panics
            /// On a name of 0 or of more than 255 bytes, which neither the catalogue nor decoding lets through.
            pub fn encode(&self, out: &mut alloc::vec::Vec<u8>) {
                $crate::response::part::encode(out, |writer| {
                    $crate::response::part::Part::write(self, writer);
                });
            }
        }
    };
}

pub(super) use payload;
