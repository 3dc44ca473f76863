//! Result of a part of a step.

use crate::api::FatalReason;

/// Result of a part of a step; the rest of the step is skipped after an invariant violation.
pub(crate) type Flow = Result<(), FatalReason>;

/// Stop the replica unless the rule holds.
pub(crate) fn must(holds: bool, rule: &'static str) -> Flow {
    if holds { Ok(()) } else { broken(rule) }
}

/// Stop the replica, because a rule is violated.
pub(crate) fn broken<T>(rule: &'static str) -> Result<T, FatalReason> {
    Err(FatalReason::Invariant(rule))
}
