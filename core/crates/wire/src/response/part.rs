//! Encoding and decoding of the components of responses.

use alloc::vec::Vec;

use crate::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// A component of responses. Sealed: implemented only by types of this crate.
pub trait Part<'a>: Sized {
    /// Read one component.
    #[doc(hidden)]
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed>;

    #[doc(hidden)]
    fn write(&self, out: &mut Writer<'_>);
}

/// Decode one component that fills the entire payload.
pub(super) fn decode<'a, T: Part<'a>>(payload: &'a [u8]) -> Result<T, Malformed> {
    let mut reader = Reader::new(payload);
    let part = T::read(&mut reader)?;
    reader.finish()?;
    Ok(part)
}

/// Run `write` and panic if a value had no encoding.
pub(super) fn encode(out: &mut Vec<u8>, write: impl FnOnce(&mut Writer<'_>)) {
    let mut writer = Writer::new(out);
    write(&mut writer);
    assert!(
        writer.is_representable(),
        "names in responses are 1 to 255 bytes long"
    );
}

/// Public API of a [`Part`]: `decode` and `encode`.
macro_rules! payload {
    ($name:ident $(<$life:lifetime>)?) => {
        #[allow(clippy::elidable_lifetime_names, reason = "the same text serves types without a lifetime")]
        impl $(<$life>)? $name $(<$life>)? {
            /// Decode a payload; trailing bytes are an error.
            pub fn decode(payload: & $($life)? [u8]) -> Result<Self, $crate::Malformed> {
                $crate::response::part::decode(payload)
            }

            /// Append the encoding.
            ///
            /// # Panics
            /// On a name of 0 or of more than 255 bytes, which neither the catalog nor decoding accepts.
            pub fn encode(&self, out: &mut alloc::vec::Vec<u8>) {
                $crate::response::part::encode(out, |writer| {
                    $crate::response::part::Part::write(self, writer);
                });
            }
        }
    };
}

pub(super) use payload;
