//! Storage operations under way, and those repeated for lack of memory or handles.

use alloc::vec::Vec;

use headrace_model::Timestamp;

use crate::storage::{
    StorageCompletion, StorageError, StorageErrorKind, StorageOperation, StorageOutcome,
    StorageRequest,
};

pub(crate) mod pending;

/// Microseconds before an operation is repeated for lack of memory or handles.
const REPEAT_MICROS: u64 = 20_000;

/// Operations under way, each with its purpose.
///
/// An operation that fails because the host is out of memory or handles had no effect and indicates no fault of the
/// storage. A partition must not become read-only for that reason, so such operations are repeated a little later.
#[derive(Debug)]
pub struct Operations<P> {
    next_id: u64,
    under_way: Vec<InFlight<P>>,
    waiting: Vec<(P, StorageOperation)>,
    repeat_at: Option<Timestamp>,
}

#[derive(Debug)]
struct InFlight<P> {
    id: u64,
    purpose: P,
    /// Operation to repeat.
    copy: Option<StorageOperation>,
}

impl<P> Operations<P> {
    /// Make an empty set; ids are counted from `first_id`.
    pub const fn new(first_id: u64) -> Self {
        Self {
            next_id: first_id,
            under_way: Vec::new(),
            waiting: Vec::new(),
            repeat_at: None,
        }
    }

    /// Request an operation; every failure is reported to the caller.
    pub fn start(
        &mut self,
        purpose: P,
        operation: StorageOperation,
        out: &mut Vec<StorageRequest>,
    ) {
        self.request(purpose, operation, None, out);
    }

    /// Request an operation that is repeated as long as resources for it are exhausted.
    pub fn start_repeated(
        &mut self,
        purpose: P,
        operation: StorageOperation,
        out: &mut Vec<StorageRequest>,
    ) {
        let copy = Some(operation.clone());
        self.request(purpose, operation, copy, out);
    }

    fn request(
        &mut self,
        purpose: P,
        operation: StorageOperation,
        copy: Option<StorageOperation>,
        out: &mut Vec<StorageRequest>,
    ) {
        let id = self.next_id;
        self.next_id += 1;
        self.under_way.push(InFlight { id, purpose, copy });
        out.push(StorageRequest { id, operation });
    }

    /// End an operation. Returns its purpose and result, unless the operation will be repeated.
    ///
    /// # Panics
    /// If no such operation is under way.
    pub fn end(
        &mut self,
        now: Timestamp,
        completion: StorageCompletion,
    ) -> Option<(P, Result<StorageOutcome, StorageError>)> {
        let StorageCompletion { id, result } = completion;
        let index = self.under_way.iter().position(|known| known.id == id);
        let ended = self
            .under_way
            .swap_remove(index.expect("the host completes each operation once"));
        let is_exhausted =
            matches!(&result, Err(error) if error.kind == StorageErrorKind::Exhausted);
        match ended.copy {
            Some(operation) if is_exhausted => {
                self.waiting.push((ended.purpose, operation));
                self.back_off(now);
                None
            }
            _ => Some((ended.purpose, result)),
        }
    }

    /// Start no operations for a while, because the host has no memory or handles.
    pub fn back_off(&mut self, now: Timestamp) {
        self.repeat_at = Some(Timestamp(now.0 + REPEAT_MICROS));
    }

    /// Return whether no operations should be started yet.
    pub fn is_backing_off(&self) -> bool {
        self.repeat_at.is_some()
    }

    /// Time of the next call of [`repeat`](Self::repeat).
    pub fn repeat_deadline(&self) -> Option<Timestamp> {
        self.repeat_at
    }

    /// Request the operations that are due for repetition.
    pub fn repeat(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        if self.repeat_at.is_some_and(|at| at <= now) {
            self.repeat_at = None;
            for (purpose, operation) in core::mem::take(&mut self.waiting) {
                self.start_repeated(purpose, operation, out);
            }
        }
    }

    /// Return whether no operation is under way or waits for repetition.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.waiting.is_empty()
    }

    /// Purposes of the operations under way.
    pub fn purposes(&self) -> impl Iterator<Item = &P> {
        let waiting = self.waiting.iter().map(|(purpose, _)| purpose);
        self.under_way
            .iter()
            .map(|known| &known.purpose)
            .chain(waiting)
    }

    /// Drop the operations that wait for repetition.
    pub fn drop_waiting(&mut self) {
        self.waiting = Vec::new();
        self.repeat_at = None;
    }

    /// Replace the purpose of every operation under way, and drop those that wait for repetition.
    pub fn replace_purposes(&mut self, mut purpose: impl FnMut() -> P) {
        self.drop_waiting();
        for known in &mut self.under_way {
            known.purpose = purpose();
            known.copy = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::FileName;

    fn completion(id: u64, kind: Option<StorageErrorKind>) -> StorageCompletion {
        let result = match kind {
            None => Ok(StorageOutcome::Done),
            Some(kind) => Err(StorageError { kind, os_error: 12 }),
        };
        StorageCompletion { id, result }
    }

    /// SHARD-12: a shortage of memory or handles delays an operation and is not a failure of the storage.
    #[test]
    fn only_exhausted_operations_are_repeated_and_only_later() {
        let (mut operations, mut out) = (Operations::new(5), Vec::new());
        let sync = || StorageOperation::Sync {
            file: FileName::Offsets,
        };
        operations.start_repeated("repeated", sync(), &mut out);
        operations.start("once", sync(), &mut out);
        let exhausted = Some(StorageErrorKind::Exhausted);
        assert!(
            operations
                .end(Timestamp(0), completion(5, exhausted))
                .is_none()
        );
        let once = operations.end(Timestamp(0), completion(6, exhausted));
        assert!(matches!(once, Some(("once", Err(_)))));
        out.clear();
        operations.repeat(Timestamp(REPEAT_MICROS - 1), &mut out);
        assert!(out.is_empty() && !operations.is_empty());
        assert_eq!(operations.repeat_deadline(), Some(Timestamp(REPEAT_MICROS)));
        operations.repeat(Timestamp(REPEAT_MICROS), &mut out);
        assert_eq!(
            (out.len(), out[0].id, operations.repeat_deadline()),
            (1, 7, None)
        );
        let failed = operations.end(Timestamp(0), completion(7, Some(StorageErrorKind::Other)));
        assert!(matches!(failed, Some(("repeated", Err(_)))));
        assert!(operations.is_empty());
    }
}
