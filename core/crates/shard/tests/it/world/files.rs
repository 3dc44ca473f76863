//! Files of all partitions, in memory.

use std::collections::BTreeMap;

use headrace_buffer::BufferPool;
use headrace_log::storage::{
    FileName, StorageError, StorageErrorKind, StorageOperation, StorageOutcome,
};
use headrace_model::Namespace;

/// Storage that never fails.
#[derive(Default)]
pub struct Files {
    by_name: BTreeMap<(Namespace, FileName), Vec<u8>>,
}

impl Files {
    /// Remove the files of a deleted partition.
    pub fn remove_directory(&mut self, namespace: Namespace) {
        self.by_name.retain(|(owner, _), _| *owner != namespace);
    }

    /// Return whether a partition has files.
    pub fn has_directory(&self, namespace: Namespace) -> bool {
        self.by_name.keys().any(|(owner, _)| *owner == namespace)
    }

    /// Execute a storage operation immediately.
    pub fn execute(
        &mut self,
        namespace: Namespace,
        operation: StorageOperation,
        pool: &BufferPool,
    ) -> Result<StorageOutcome, StorageError> {
        let missing = StorageError {
            kind: StorageErrorKind::Missing,
            os_error: 2,
        };
        match operation {
            StorageOperation::OpenDirectory => {
                let files = self
                    .by_name
                    .iter()
                    .filter(|((owner, _), _)| *owner == namespace);
                return Ok(StorageOutcome::Listed(
                    files
                        .map(|((_, file), bytes)| (*file, bytes.len() as u64))
                        .collect(),
                ));
            }
            StorageOperation::SetAsideDirectory => self.remove_directory(namespace),
            StorageOperation::Create { file } => {
                self.by_name.insert((namespace, file), Vec::new());
            }
            StorageOperation::Write {
                file,
                position,
                slices,
            } => {
                let bytes = self.by_name.get_mut(&(namespace, file)).ok_or(missing)?;
                let mut position = usize::try_from(position).unwrap();
                for slice in slices {
                    bytes.resize(bytes.len().max(position + slice.len()), 0);
                    bytes[position..position + slice.len()].copy_from_slice(&slice);
                    position += slice.len();
                }
            }
            StorageOperation::Read {
                file,
                position,
                length,
            } => {
                let bytes = self.by_name.get(&(namespace, file)).ok_or(missing)?;
                let start = bytes.len().min(usize::try_from(position).unwrap());
                let end = bytes.len().min(start + length as usize);
                let exhausted = |_| StorageError {
                    kind: StorageErrorKind::Exhausted,
                    os_error: 12,
                };
                let mut buffer = pool.acquire_to_read(length as usize).map_err(exhausted)?;
                buffer[..end - start].copy_from_slice(&bytes[start..end]);
                buffer.set_len(end - start);
                return Ok(StorageOutcome::Read(buffer));
            }
            StorageOperation::Truncate { file, length } => {
                let bytes = self.by_name.get_mut(&(namespace, file)).ok_or(missing)?;
                bytes.truncate(usize::try_from(length).unwrap());
            }
            StorageOperation::CutOff { file, length, into } => {
                let bytes = self.by_name.get_mut(&(namespace, file)).ok_or(missing)?;
                let behind = bytes.split_off(usize::try_from(length).unwrap());
                self.by_name.insert((namespace, into), behind);
            }
            StorageOperation::Replace { file, contents } => {
                self.by_name.insert((namespace, file), contents);
            }
            StorageOperation::Rename { file, into } => {
                let bytes = self.by_name.remove(&(namespace, file)).ok_or(missing)?;
                self.by_name.insert((namespace, into), bytes);
            }
            StorageOperation::Remove { file } => {
                self.by_name.remove(&(namespace, file));
            }
            StorageOperation::Sync { .. }
            | StorageOperation::Uncache { .. }
            | StorageOperation::Allocate { .. } => {}
        }
        Ok(StorageOutcome::Done)
    }
}
