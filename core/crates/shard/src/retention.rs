//! When the cleaner looks at the topics.

use std::sync::Arc;

use headrace_model::Timestamp;

use crate::{Shard, api::Effect};

impl Shard {
    /// Has the cleaner look when that is due: at the interval of the settings, or earlier if it asked for that.
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
