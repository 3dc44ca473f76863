//! Conversion of system errors to storage errors.

use std::io;

use headrace_log::storage::{StorageError, StorageErrorKind};

/// Convert the error of an operation that may be retried if it failed for lack of a resource.
pub(super) fn to_storage_error(error: &io::Error) -> StorageError {
    let os_error = error.raw_os_error().unwrap_or(0);
    let kind = match os_error {
        libc::ENOENT => StorageErrorKind::Missing,
        // A write of 0 bytes without an error has no error number.
        libc::ENOSPC | libc::EDQUOT => StorageErrorKind::NoSpace,
        0 if error.kind() == io::ErrorKind::WriteZero => StorageErrorKind::NoSpace,
        // The last two are reported by file systems for invalid structures and checksums.
        libc::EIO | libc::EUCLEAN | libc::EBADMSG => StorageErrorKind::Damaged,
        libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::EAGAIN => StorageErrorKind::Exhausted,
        _ => StorageErrorKind::Other,
    };
    StorageError { kind, os_error }
}

/// Convert the error of a sync. It is never to be retried: the kernel may have dropped the pages it could not write and
/// would report the next sync as a success.
pub(super) fn sync_error(error: &io::Error) -> StorageError {
    let mapped = to_storage_error(error);
    match mapped.kind {
        StorageErrorKind::Exhausted => StorageError {
            kind: StorageErrorKind::Other,
            ..mapped
        },
        _ => mapped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_is_never_said_to_be_repeatable() {
        for errno in [libc::ENOMEM, libc::EAGAIN] {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(to_storage_error(&error).kind, StorageErrorKind::Exhausted);
            assert_eq!(sync_error(&error).kind, StorageErrorKind::Other);
            assert_eq!(sync_error(&error).os_error, errno);
        }
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(sync_error(&full).kind, StorageErrorKind::NoSpace);
        assert_eq!(
            to_storage_error(&io::ErrorKind::WriteZero.into()).kind,
            StorageErrorKind::NoSpace
        );
    }
}
