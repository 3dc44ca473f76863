//! Deadlines of partitions, in order of time, and the schedule of the cleaner.

use std::collections::BTreeSet;

use headrace_catalog::Catalog;
use headrace_model::{Namespace, StreamId, Timestamp, TopicId};

/// Deadlines of one kind: one of each partition at most, which notes it as well.
///
/// A deadline that moves is moved here. In a heap it would leave an entry behind, and one that moves back and forth any
/// number of them.
#[derive(Debug, Default)]
pub(super) struct Deadlines(pub(super) BTreeSet<(Timestamp, Namespace)>);

impl Deadlines {
    /// Set the deadline of a partition, which has `noted` at present.
    #[inline]
    pub(super) fn set(
        &mut self,
        namespace: Namespace,
        noted: &mut Option<Timestamp>,
        deadline: Option<Timestamp>,
    ) {
        if *noted == deadline {
            return;
        }
        if let Some(before) = core::mem::replace(noted, deadline) {
            self.0.remove(&(before, namespace));
        }
        if let Some(deadline) = deadline {
            self.0.insert((deadline, namespace));
        }
    }

    /// Take out the partition whose deadline has passed first. It has none afterwards, and is to note that.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<Namespace> {
        let (deadline, _) = self.0.first()?;
        if *deadline > now {
            return None;
        }
        self.0.pop_first().map(|(_, namespace)| namespace)
    }
}

/// Schedule of the cleaner.
#[derive(Default)]
pub(super) struct Cleaner {
    /// Time of the next run.
    pub(super) run_at: Timestamp,
    /// Version of the catalog whose topics are known.
    version: Option<u64>,
    /// Topics with a limit of their size.
    pub(super) limited: Vec<(StreamId, TopicId)>,
}

impl Cleaner {
    /// Find the topics with limits in another catalog.
    pub(super) fn follow(&mut self, catalog: &Catalog) {
        if self.version.replace(catalog.version()) == Some(catalog.version()) {
            return;
        }
        let limited = catalog.topics().filter(|topic| topic.is_limited());
        self.limited = limited.map(|topic| (topic.stream_id, topic.id)).collect();
    }
}
