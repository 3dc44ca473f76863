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

use crate::frame::area::Prepare;
use crate::frame::{Operation, Release};
use crate::replica::flow::Flow;
use crate::rules::Rules;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    /// Record that all members run this release, or a later one.
    pub(super) fn on_common(&mut self, release: Release) {
        let release = release.min(self.member.config.release).without_patch();
        self.admission.set_common_release(release);
    }

    /// Put a later release in force, as primary, when all members support it.
    pub(super) fn raise_release(&mut self) -> Flow {
        let release = self.admission.common_release();
        if self
            .log
            .newest_release()
            .is_none_or(|newest| release <= newest)
        {
            return Ok(());
        }
        let gate = self.gate();
        if !gate.admits || !gate.may_prepare {
            return Ok(());
        }
        let area = Prepare {
            operation: Operation::RELEASE,
            ..Prepare::default()
        };
        self.prepare(release, area, Slice::default())
    }
}
