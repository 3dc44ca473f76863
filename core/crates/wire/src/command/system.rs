//! Diagnostics and connection requests.

use alloc::vec::Vec;

use super::Payload;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{SnapshotCompression, SnapshotKind, Status};

/// A diagnostics archive. Layout: `u8 compression · u8 n · u8 kind[n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetSnapshot<'a> {
    /// Code of a [`SnapshotCompression`], unchecked.
    pub compression_code: u8,
    /// Codes of [`SnapshotKind`], unchecked; at most 255.
    pub kind_codes: &'a [u8],
}

impl GetSnapshot<'_> {
    /// Compression of the archive. Fails with [`Status::INVALID_COMMAND`] on an unknown code.
    pub fn compression(&self) -> Result<SnapshotCompression, Status> {
        Ok(SnapshotCompression::try_from(self.compression_code)?)
    }

    /// Entries of the archive: the requested ones, or every one except the test if all are requested.
    ///
    /// Fails with [`Status::INVALID_COMMAND`] on an unknown code, or if "all" is combined with another kind. An empty
    /// request is accepted; a repeated kind is returned once.
    pub fn kinds(&self) -> Result<Vec<SnapshotKind>, Status> {
        let mut kinds = Vec::new();
        for &code in self.kind_codes {
            let kind = SnapshotKind::try_from(code)?;
            if kind == SnapshotKind::All {
                if self.kind_codes.len() != 1 {
                    return Err(Status::INVALID_COMMAND);
                }
                return Ok(SnapshotKind::ALL
                    .iter()
                    .copied()
                    .filter(|kind| !matches!(kind, SnapshotKind::All | SnapshotKind::Test))
                    .collect());
            }
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        Ok(kinds)
    }
}

impl<'a> Payload<'a> for GetSnapshot<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        let compression_code = reader.u8()?;
        let count = reader.u8()?;
        Ok(Self {
            compression_code,
            kind_codes: reader.bytes(usize::from(count))?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u8(self.compression_code);
        out.short(self.kind_codes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(codes: &[u8]) -> Result<Vec<SnapshotKind>, Status> {
        GetSnapshot {
            compression_code: 1,
            kind_codes: codes,
        }
        .kinds()
    }

    #[test]
    fn all_is_exclusive_and_omits_the_test() {
        let all = kinds(&[100]).expect("valid");
        assert_eq!(all.len(), 5);
        assert!(!all.contains(&SnapshotKind::Test));
        assert_eq!(kinds(&[100, 1]), Err(Status::INVALID_COMMAND));
        assert_eq!(kinds(&[1, 100]), Err(Status::INVALID_COMMAND));
    }

    #[test]
    fn unknown_kinds_are_refused_and_repeated_ones_returned_once() {
        assert_eq!(kinds(&[7]), Err(Status::INVALID_COMMAND));
        assert_eq!(
            kinds(&[4, 4, 1]),
            Ok(alloc::vec![
                SnapshotKind::Test,
                SnapshotKind::FilesystemOverview
            ])
        );
        assert_eq!(kinds(&[]), Ok(Vec::new()));
    }
}
