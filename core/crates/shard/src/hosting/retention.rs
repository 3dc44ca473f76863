//! Schedule of the retention cleaner.

use headrace_catalog::Catalog;
use headrace_model::Timestamp;

use super::Partitions;
use crate::api::Effect;

impl Partitions {
    /// Run the cleaner when it is due: at the configured interval, or earlier if it has requested that. Ages are counted
    /// up to `trusted`, as what was deleted by a wrong clock does not come back.
    pub(crate) fn tick_retention(
        &mut self,
        catalog: &Catalog,
        now: Timestamp,
        trusted: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(interval) = self.config.retention.interval_micros
            && self.clean_at <= now
        {
            let pause = self.clean(catalog, now, trusted, effects).min(interval);
            self.clean_at = Timestamp(now.0 + pause);
        }
    }
}
