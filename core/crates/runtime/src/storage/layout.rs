//! Paths of a partition's files.

use std::path::PathBuf;

use headrace_log::storage::FileName;
use headrace_model::Namespace;

use super::removal::Removal;

/// Paths below the data directory (LOG-13).
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Directory of a partition.
    pub(super) fn directory(&self, namespace: Namespace) -> PathBuf {
        self.root.join(partition_directory(namespace))
    }

    /// Removal of a partition's directory.
    pub(super) fn removal(&self, namespace: Namespace) -> Removal {
        let (stream, topic, partition) =
            (namespace.stream(), namespace.topic(), namespace.partition());
        let name = format!("{stream}-{topic}-{partition}");
        Removal::new(&self.root, self.directory(namespace), name)
    }

    /// Directory of a partition and the path of a file in it.
    pub(super) fn file(&self, namespace: Namespace, file: FileName) -> (PathBuf, PathBuf) {
        let directory = self.directory(namespace);
        let path = directory.join(file.to_string());
        (directory, path)
    }
}

/// Path of a partition's directory in the data directory.
pub(crate) fn partition_directory(namespace: Namespace) -> PathBuf {
    let (stream, topic, partition) = (namespace.stream(), namespace.topic(), namespace.partition());
    format!("streams/{stream}/topics/{topic}/partitions/{partition}").into()
}

#[cfg(test)]
mod tests {
    use headrace_model::{Offset, PartitionId, StreamId, TopicId};

    use super::*;

    /// LOG-13: identifiers, not names, make the path; LOG-2: the file is named by its first offset.
    #[test]
    fn paths_are_made_of_identifiers() {
        let namespace = Namespace::new(StreamId(4095), TopicId(2), PartitionId(1_048_575)).unwrap();
        let layout = Layout::new("/data".into());
        let (directory, path) = layout.file(namespace, FileName::Log(Offset(42)));
        assert_eq!(
            directory.to_str(),
            Some("/data/streams/4095/topics/2/partitions/1048575")
        );
        assert_eq!(path, directory.join("00000000000000000042.log"));
    }
}
