//! The release gate: nothing is in the log that some member does not know.
//!
//! Members of a group are upgraded one by one. A command of the newer release in the log would stop those that are still of
//! the older one, or make them differ. So each prepare carries the release that is *in force*, which never goes back along the
//! log. When a primary has heard from all members that they run a later one, it puts that in force with an operation; when
//! that is executed, commands of the later release are taken, and before they are refused.
//!
//! A program of an older release than the one in force neither opens such a log nor goes on with it: there is no way back.

use headrace_buffer::Slice;

use crate::api::{FatalReason, Notice};
use crate::frame::area::Prepare;
use crate::frame::{Operation, PrepareHeader, Release};
use crate::rules::Rules;

use super::{Flow, Replica};

impl<R: Rules> Replica<R> {
    /// The release in force, as far as this replica has executed.
    pub(super) fn release_in_force(&self) -> Release {
        self.header(self.commit_min)
            .map_or(Release::FIRST, PrepareHeader::release_in_force)
    }

    /// All members run this release, or a later one.
    pub(super) fn on_common(&mut self, release: Release) {
        self.common_release = release.min(self.config.release).without_patch();
    }

    /// Puts a later release in force, as primary, when all members know it.
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

    /// What is in the log is known to this program.
    pub(super) fn must_know(&self, header: &PrepareHeader) -> Flow {
        let (needed, own) = (header.release_in_force(), self.config.release);
        if needed > own {
            return Err(FatalReason::Release { needed, own });
        }
        Ok(())
    }

    /// Says so when an operation that was executed has put a release in force.
    pub(super) fn notice_release(&mut self, header: &PrepareHeader) {
        if header.area.operation == Operation::RELEASE {
            let release = header.release_in_force();
            self.notice(Notice::ReleaseInForce { release });
        }
    }
}
