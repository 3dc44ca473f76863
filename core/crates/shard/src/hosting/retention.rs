//! Schedule of the retention cleaner.

use std::sync::Arc;

use headrace_model::Timestamp;

use crate::{Shard, api::Effect};

impl Shard {
    /// Run the cleaner when it is due: at the configured interval, or earlier if it has requested that.
    pub(crate) fn tick_retention(&mut self, effects: &mut Vec<Effect>) {
        let now = self.now;
        if let Some(interval) = self.config.retention.interval_micros
            && self.retention_at <= now
        {
            let catalog = Arc::clone(self.catalog.load());
            let pause = self.partitions.clean(&catalog, now, effects).min(interval);
            self.retention_at = Timestamp(now.0 + pause);
        }
    }
}
