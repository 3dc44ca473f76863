//! Incremental validation of UTF-8.

/// Maximum number of bytes of an encoded character.
const CHARACTER_BYTES_MAX: usize = 4;

/// The bytes are not UTF-8, whatever follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotUtf8;

/// Incremental UTF-8 validator. An invalid byte is reported with the piece that contains it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Utf8Check {
    /// First bytes of an incomplete character.
    open: [u8; CHARACTER_BYTES_MAX],
    open_len: usize,
}

impl Utf8Check {
    /// Check the next piece.
    pub(crate) fn feed(&mut self, mut piece: &[u8]) -> Result<(), NotUtf8> {
        while self.open_len > 0 {
            let Some((&byte, rest)) = piece.split_first() else {
                return Ok(());
            };
            piece = rest;
            self.open[self.open_len] = byte;
            self.open_len += 1;
            match core::str::from_utf8(&self.open[..self.open_len]) {
                Ok(_) => self.open_len = 0,
                // Incomplete character, which is never the case with four bytes: those are valid or invalid.
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(NotUtf8),
            }
        }
        match core::str::from_utf8(piece) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_none() => {
                let open = &piece[error.valid_up_to()..];
                self.open[..open.len()].copy_from_slice(open);
                self.open_len = open.len();
                Ok(())
            }
            Err(_) => Err(NotUtf8),
        }
    }

    /// Check that the text may end here.
    pub(crate) fn finish(&mut self) -> Result<(), NotUtf8> {
        if core::mem::take(&mut self.open_len) == 0 {
            Ok(())
        } else {
            Err(NotUtf8)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(bytes: &[u8], pieces: &[usize]) -> bool {
        let mut check = Utf8Check::default();
        let mut rest = bytes;
        for piece in pieces.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (front, back) = rest.split_at((*piece).min(rest.len()));
            if check.feed(front).is_err() {
                return false;
            }
            rest = back;
        }
        check.finish().is_ok()
    }

    proptest! {
        /// The result is independent of the splitting of a text.
        #[test]
        fn pieces_validate_like_the_whole_text(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..12),
                any::<String>().prop_map(String::into_bytes),
                (any::<String>(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(text, at, byte)| {
                    let mut bytes = text.into_bytes();
                    if !bytes.is_empty() {
                        let at = at.index(bytes.len());
                        bytes[at] = byte;
                    }
                    bytes
                }),
            ],
            pieces in prop::collection::vec(1_usize..5, 1..5),
        ) {
            prop_assert_eq!(check(&bytes, &pieces), core::str::from_utf8(&bytes).is_ok());
        }
    }

    /// Detected as soon as no continuation can be valid: a surrogate, an overlong form, a value beyond the last
    /// character.
    #[test]
    fn a_wrong_character_is_noticed_before_its_end() {
        for wrong in [&[0xed, 0xa0][..], &[0xc0], &[0xe0, 0x80], &[0xf4, 0x90]] {
            let mut check = Utf8Check::default();
            let verdict = wrong.iter().try_for_each(|byte| check.feed(&[*byte]));
            assert_eq!(verdict, Err(NotUtf8), "{wrong:02x?}");
        }
    }
}
