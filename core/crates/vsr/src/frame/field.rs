//! Fixed-size values at byte offsets.

use super::{Operation, PrepareFlags, Reject};

/// Value with a fixed offset in a header.
pub(crate) trait Field: Copy {
    /// Write the value to the start of `bytes`.
    fn put(self, bytes: &mut [u8]);

    /// Read the value from the start of `bytes`.
    fn get(bytes: &[u8]) -> Result<Self, Reject>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn put(self, bytes: &mut [u8]) {
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_le_bytes());
            }

            fn get(bytes: &[u8]) -> Result<Self, Reject> {
                let bytes = bytes.first_chunk().expect("offsets lie within the header");
                Ok(Self::from_le_bytes(*bytes))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128);

impl Field for Operation {
    fn put(self, bytes: &mut [u8]) {
        bytes[0] = self.code();
    }

    fn get(bytes: &[u8]) -> Result<Self, Reject> {
        Self::from_code(bytes[0]).ok_or(Reject::Area)
    }
}

impl Field for PrepareFlags {
    fn put(self, bytes: &mut [u8]) {
        bytes[0] = self.bits();
    }

    fn get(bytes: &[u8]) -> Result<Self, Reject> {
        Self::from_bits(bytes[0]).ok_or(Reject::Reserved)
    }
}

/// Decode a number that always fits: for fields outside the areas.
pub(crate) fn number<T: Field>(bytes: &[u8], offset: usize) -> T {
    T::get(&bytes[offset..]).expect("every value of a plain number is valid")
}
