//! Release gate: the log never contains an operation that some member does not support.
//!
//! Members of a group are upgraded one by one. A command of the newer release in the log would stop members that still
//! run the older one, or make their states diverge. So each prepare carries the release that is *in force*, which never
//! decreases along the log. When a primary has learned that all members run a later release, it puts that release in
//! force with an operation. Commands of the later release are refused until that operation has been executed, and
//! accepted afterwards.
//!
//! A program of an older release than the one in force can neither open such a log nor continue it: downgrades are
//! impossible.

use headrace_buffer::Slice;

use crate::api::{FatalReason, Notice};
use crate::frame::area::Prepare;
use crate::frame::{Operation, PrepareHeader, Release};
use crate::rules::Rules;

use crate::replica::{Flow, Replica};

impl<R: Rules> Replica<R> {
    /// Release in force, as of the newest operation executed by this replica.
    pub(super) fn release_in_force(&self) -> Release {
        self.header(self.commit_min)
            .map_or(Release::FIRST, PrepareHeader::release_in_force)
    }

    /// Record that all members run this release, or a later one.
    pub(super) fn on_common(&mut self, release: Release) {
        self.common_release = release.min(self.config.release).without_patch();
    }

    /// Put a later release in force, as primary, when all members support it.
    pub(super) fn raise_release(&mut self) -> Flow {
        let Some(newest) = self.header(self.head).map(PrepareHeader::release_in_force) else {
            return Ok(());
        };
        if self.common_release <= newest || !self.admits() || !self.may_prepare() {
            return Ok(());
        }
        let area = Prepare {
            operation: Operation::RELEASE,
            ..Prepare::default()
        };
        self.prepare(self.common_release, area, Slice::default())
    }

    /// Stop if this program does not support the release of a prepare in the log.
    pub(super) fn must_know(&self, header: &PrepareHeader) -> Flow {
        let (needed, own) = (header.release_in_force(), self.config.release);
        if needed > own {
            return Err(FatalReason::Release { needed, own });
        }
        Ok(())
    }

    /// Emit a notice if an executed operation has put a release in force.
    pub(super) fn notice_release(&mut self, header: &PrepareHeader) {
        if header.area.operation == Operation::RELEASE {
            let release = header.release_in_force();
            self.notice(Notice::ReleaseInForce { release });
        }
    }
}
