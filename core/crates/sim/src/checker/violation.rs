//! Faults that checkers find.

use serde::{Deserialize, Serialize};

/// Checker that found a fault. The order follows the list of checkers in the crate's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Check {
    /// Replicas executed different operations at one position of the log, executed one twice, or skipped one.
    Agreement,
    /// Replicas that executed the same operations have different states.
    State,
    /// An acknowledged operation is missing from the log, or from some replica after healing.
    Durability,
    /// No total order of all operations explains the answers to clients.
    Linearizability,
    /// A command was executed twice, or although it was refused.
    ExactlyOnce,
    /// A view, a commit number or a persisted number decreased, or a bound was exceeded.
    Progress,
    /// A replica received a command that its release does not support, or was locked out by a release that it had never
    /// run.
    Release,
    /// Log timestamps are ahead of all correct clocks, or lag behind them.
    Time,
    /// A replica stopped because of a violated invariant.
    Invariant,
    /// A token was not completed, or an unknown token was.
    Tokens,
    /// A replica refused to start although its disk has all required data.
    Recovery,
    /// After a clean shutdown a data directory is not in the state that the next start expects.
    CleanShutdown,
    /// A replica raised an alarm without a cause, or did not report damaged data that it has read.
    Alarm,
    /// A program that serves as the state machine failed, or reported a violated invariant of its state.
    Machine,
    /// After healing the group does not answer, or does not converge.
    Liveness,
}

/// Fault found by a checker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{check:?}: {what}")]
pub struct Violation {
    /// Checker that found it.
    pub check: Check,
    /// Description of the fault.
    pub what: String,
}

impl Violation {
    /// Create a fault.
    pub fn new(check: Check, what: impl Into<String>) -> Self {
        Self {
            check,
            what: what.into(),
        }
    }
}
