//! Storage operations in flight: the effect of each and its completion are separate events.

use fastrand::Rng;
use headrace_partition::storage::{FileName, StorageCompletion, StorageOperation, StorageRequest};

use super::disk::{Crash, Disk, Outcome};

#[derive(Debug)]
struct UnderWay {
    request: StorageRequest,
    outcome: Option<Outcome>,
}

/// Operations in the order of their requests.
#[derive(Debug, Default)]
pub struct InFlight(Vec<UnderWay>);

/// One event on the disk.
#[derive(Debug)]
pub enum Event {
    /// An operation took effect.
    Effect,
    /// The completion of an operation arrives.
    Completion(StorageCompletion),
}

impl InFlight {
    /// Begin an operation. Fails the test if it must not be in flight together with another one.
    pub fn begin(&mut self, request: StorageRequest) {
        let conflicting = self
            .operations()
            .find(|other| conflict(other, &request.operation));
        assert!(
            conflicting.is_none(),
            "{request:?} must not be under way together with {conflicting:?}"
        );
        self.0.push(UnderWay {
            request,
            outcome: None,
        });
    }

    pub fn first(&self) -> Option<&StorageOperation> {
        self.operations().next()
    }

    pub fn operations(&self) -> impl Iterator<Item = &StorageOperation> {
        self.0.iter().map(|operation| &operation.request.operation)
    }

    /// Execute one event, of any operation if there is an `order`, else of the first one. None if nothing is in flight.
    pub fn step(&mut self, disk: &mut Disk, mut order: Option<&mut Rng>) -> Option<Event> {
        if self.0.is_empty() {
            return None;
        }
        let index = order
            .as_mut()
            .map_or(0, |random| random.usize(..self.0.len()));
        let operation = &mut self.0[index];
        if operation.outcome.is_none() {
            operation.outcome = Some(disk.execute(&operation.request.operation));
            if order.is_some_and(Rng::bool) {
                return Some(Event::Effect);
            }
        }
        let done = self.0.remove(index);
        Some(Event::Completion(StorageCompletion {
            id: done.request.id,
            result: done.outcome.expect("executed"),
        }))
    }

    /// Crash: every operation in flight happened fully, partly or not at all.
    pub fn crash(&mut self, crash: Crash, disk: &mut Disk, random: &mut Rng) {
        for operation in std::mem::take(&mut self.0) {
            if operation.outcome.is_none() {
                disk.execute_partly(&operation.request.operation, random);
            }
        }
        if crash == Crash::Power {
            disk.lose_power(random);
        }
    }
}

/// SHARD-9: the order of operations is never left to the host. Of one file only reads, one write, one sync and advice
/// may be in flight together.
fn conflict(one: &StorageOperation, other: &StorageOperation) -> bool {
    use StorageOperation::{Allocate, Read, Sync, Write};
    let (Some(file), Some(other_file)) = (file_of(one), file_of(other)) else {
        return false;
    };
    if file != other_file {
        return false;
    }
    // A poll may read a segment while it is removed, or an index while it is replaced.
    let is_read = |operation: &StorageOperation| matches!(operation, Read { .. });
    let goes_with_a_write =
        |operation: &StorageOperation| matches!(operation, Sync { .. } | Allocate { .. });
    let is_change =
        |operation: &StorageOperation| !is_read(operation) && !goes_with_a_write(operation);
    if is_read(one) || is_read(other) {
        return false;
    }
    match (one, other) {
        (Write { .. }, other) | (other, Write { .. }) => is_change(other),
        (Sync { .. }, Allocate { .. }) | (Allocate { .. }, Sync { .. }) => false,
        _ => true,
    }
}

fn file_of(operation: &StorageOperation) -> Option<FileName> {
    match operation {
        StorageOperation::OpenDirectory | StorageOperation::SetAsideDirectory => None,
        StorageOperation::Create { file }
        | StorageOperation::Write { file, .. }
        | StorageOperation::Read { file, .. }
        | StorageOperation::Sync { file }
        | StorageOperation::Uncache { file, .. }
        | StorageOperation::Truncate { file, .. }
        | StorageOperation::CutOff { file, .. }
        | StorageOperation::Rename { file, .. }
        | StorageOperation::Allocate { file, .. }
        | StorageOperation::Replace { file, .. }
        | StorageOperation::Remove { file } => Some(*file),
    }
}
