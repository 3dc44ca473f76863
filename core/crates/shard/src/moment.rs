//! State of a step that no part of a shard changes: its configuration, the catalog and the time.

use std::sync::Arc;

use headrace_catalog::{Catalog, CatalogReader};
use headrace_model::Timestamp;

use crate::{config::ShardConfig, meter::Meter};

/// Relation of a shard's time, which never goes back, to the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockState {
    /// Microseconds by which the shard's time is ahead of the wall clock, which was set back.
    pub lead_micros: u64,
    /// Microseconds of steps forward of the wall clock that may be mistakes: nothing is deleted because of them.
    pub doubted_micros: u64,
}

/// Surroundings of a shard's parts, none of which they change.
pub(crate) struct Present {
    pub(crate) config: Arc<ShardConfig>,
    pub(crate) catalog: CatalogReader,
    pub(crate) meter: Arc<Meter>,
    pub(crate) now: Timestamp,
    clock: ClockState,
}

/// The surroundings as they are now, with the newest catalog.
#[derive(Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) config: &'a Arc<ShardConfig>,
    pub(crate) catalog: &'a Arc<Catalog>,
    pub(crate) meter: &'a Arc<Meter>,
    pub(crate) now: Timestamp,
    /// Time of the wall clock. Moments that others have chosen, as the expiry of a ticket or a login, are compared with
    /// this time; everything else is with `now`, which never goes back.
    pub(crate) wall: Timestamp,
}

impl Present {
    /// Create the surroundings of a shard that was not given a time yet.
    pub(crate) fn new(config: Arc<ShardConfig>, catalog: CatalogReader, meter: Arc<Meter>) -> Self {
        Self {
            config,
            catalog,
            meter,
            now: Timestamp(0),
            clock: ClockState::default(),
        }
    }

    /// Return the surroundings with the newest catalog.
    #[inline]
    pub(crate) fn moment(&mut self) -> Moment<'_> {
        let wall = self.wall();
        Moment {
            config: &self.config,
            catalog: self.catalog.load(),
            meter: &self.meter,
            now: self.now,
            wall,
        }
    }

    pub(crate) fn set_now(&mut self, now: Timestamp) {
        self.now = now;
        self.meter.set_now(now);
    }

    pub(crate) fn set_clock(&mut self, clock: ClockState) {
        self.clock = clock;
    }

    /// Time of the wall clock, as in [`Moment`].
    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp(self.now.0.saturating_sub(self.clock.lead_micros))
    }

    /// Time by which messages are old enough to be deleted: the wall clock, without steps forward that are doubted.
    pub(crate) fn trusted(&self) -> Timestamp {
        Timestamp(self.wall().0.saturating_sub(self.clock.doubted_micros))
    }
}
