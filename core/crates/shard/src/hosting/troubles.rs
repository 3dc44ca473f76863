//! Partitions that need an operator.

/// Counts of the partitions that need an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Troubles {
    /// Number of partitions that are read-only or out of service for another reason than `foreign`.
    pub failed: usize,
    /// Number of other partitions with a file beside the log that cannot be written or read at present.
    pub failing_files: usize,
    /// Number of partitions that are out of service because their directory is another's.
    pub foreign: usize,
    /// Number of files that were set aside in the directories of partitions.
    pub set_aside_files: usize,
}
