//! Publication of versions from one writer to any number of readers, without a lock.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use headrace_proto::catalog::v1;

use crate::{ApplyError, Catalog};

/// Publisher of versions. One exists per process: it is not `Clone`, and publishing needs it mutably.
#[derive(Debug)]
pub struct CatalogWriter {
    current: Arc<ArcSwap<Catalog>>,
}

/// Reader of the newest version. Cheap to clone; every thread should have its own.
#[derive(Debug, Clone)]
pub struct CatalogReader {
    cache: Cache<Arc<ArcSwap<Catalog>>, Arc<Catalog>>,
}

impl CatalogWriter {
    /// Start with `catalog`.
    pub fn new(catalog: Catalog) -> Self {
        Self {
            current: Arc::new(ArcSwap::from_pointee(catalog)),
        }
    }

    /// Make a reader.
    pub fn reader(&self) -> CatalogReader {
        CatalogReader {
            cache: Cache::new(Arc::clone(&self.current)),
        }
    }

    /// Return the newest version.
    pub fn current(&self) -> Arc<Catalog> {
        self.current.load_full()
    }

    /// Publish the version after the current one. On an error readers keep the current one.
    pub fn publish_update(&mut self, update: &v1::Update) -> Result<Arc<Catalog>, ApplyError> {
        let next = self.current.load().apply(update)?;
        Ok(self.publish(next))
    }

    /// Publish a version, older or newer than the current one. On an error readers keep the current one.
    pub fn publish_snapshot(
        &mut self,
        snapshot: &v1::Snapshot,
    ) -> Result<Arc<Catalog>, ApplyError> {
        let next = self.current.load().replaced_by(snapshot)?;
        Ok(self.publish(next))
    }

    fn publish(&mut self, next: Catalog) -> Arc<Catalog> {
        let next = Arc::new(next);
        self.current.store(Arc::clone(&next));
        next
    }
}

impl CatalogReader {
    /// Load the newest version. Costs one atomic load and a comparison while nothing is published.
    pub fn load(&mut self) -> &Arc<Catalog> {
        self.cache.load()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream_put(version: u64, id: u32, name: &str) -> v1::Update {
        v1::Update {
            version,
            deltas: vec![v1::Delta {
                change: Some(v1::delta::Change::StreamPut(v1::Stream {
                    id,
                    name: name.into(),
                    created_at_micros: 1,
                    incarnation: 1 + u64::from(id),
                })),
            }],
        }
    }

    /// SHARD-7: readers load whole versions, and a loaded version never changes.
    #[test]
    fn readers_follow_the_writer() {
        let mut writer = CatalogWriter::new(Catalog::default());
        let mut reader = writer.reader();
        let before = Arc::clone(reader.load());
        writer
            .publish_update(&stream_put(1, 0, "orders"))
            .expect("fits");
        assert_eq!(before.streams().len(), 0);
        assert_eq!(reader.load().version(), 1);
        assert!(reader.load().stream_by_name("orders").is_some());
        assert_eq!(reader.clone().load().version(), 1);
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut writer = CatalogWriter::new(Catalog::default());
        writer
            .publish_update(&stream_put(1, 0, "orders"))
            .expect("fits");
        for (update, current) in [(1, 1), (3, 1), (0, 1)] {
            assert_eq!(
                writer.publish_update(&stream_put(update, 5, "x")).err(),
                Some(ApplyError::VersionGap { current, update })
            );
        }
        assert_eq!(
            writer.publish_update(&stream_put(2, 1, "orders")).err(),
            Some(ApplyError::DuplicateName {
                name: "orders".into(),
                owner: 0
            })
        );
        let unknown = v1::Update {
            version: 2,
            deltas: vec![v1::Delta { change: None }],
        };
        assert_eq!(
            writer.publish_update(&unknown).err(),
            Some(ApplyError::UnknownChange { update: 2 })
        );
        assert_eq!(writer.current().version(), 1);
        assert_eq!(writer.current().streams().len(), 1);
    }

    #[test]
    fn a_version_shares_what_did_not_change() {
        let mut writer = CatalogWriter::new(Catalog::default());
        writer.publish_update(&stream_put(1, 0, "a")).expect("fits");
        let before = writer.current();
        writer.publish_update(&stream_put(2, 1, "b")).expect("fits");
        let after = writer.current();
        assert!(Arc::ptr_eq(
            before.stream_by_name("a").expect("exists"),
            after.stream_by_name("a").expect("exists")
        ));
        assert!(Arc::ptr_eq(&before.users, &after.users));
    }
}
