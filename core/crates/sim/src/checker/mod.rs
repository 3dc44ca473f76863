//! Judges of a run. Each looks only at what happened outside of the replicas: what they executed, answered and sent.

mod alarms;
mod canon;
mod history;
mod progress;
mod reference;
mod search;

pub use alarms::{Alarm, Cause, Causes, Verdict, must_be_noticed};
pub use canon::{Canon, Executed};
pub use history::{Call, Ending, History, Question};
pub use progress::{Progress, Sighting};
pub use reference::Reference;
pub use search::{CALLS_MAX, SEARCHED, Searched, search};

use serde::{Deserialize, Serialize};

/// The judge that found a fault. The numbers follow the list of checkers in the crate's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Check {
    /// Replicas executed different operations at one place of the log, or an operation twice, or left one out.
    Agreement,
    /// Replicas that executed the same operations have different states.
    State,
    /// An acknowledged operation is not in the log, or not on every replica after healing.
    Durability,
    /// What clients saw is not explained by one order of all operations.
    Linearizability,
    /// A command was executed twice, or although it was refused.
    ExactlyOnce,
    /// A view, a commit point or a persisted number went back, or a bound was exceeded.
    Progress,
    /// A replica met a command that its release does not know, or was shut out by one that others had brought.
    Release,
    /// The log's time is ahead of all clocks that are right, or stays behind them.
    Time,
    /// A replica stopped with a broken invariant.
    Invariant,
    /// A token was not completed, or one that does not exist was.
    Tokens,
    /// A replica refused to start although its disk holds what it needs.
    Recovery,
    /// After a clean end a folder is not as the next start expects it.
    CleanEnd,
    /// A replica says that something is wrong that is not, or says nothing of damage that it has read.
    Alarm,
    /// A program that is the state machine failed, or found that its state breaks a rule of its own.
    Machine,
    /// After healing the group does not answer, or does not converge.
    Liveness,
}

/// A fault that a checker found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{check:?}: {what}")]
pub struct Violation {
    /// Who found it.
    pub check: Check,
    /// What is wrong.
    pub what: String,
}

impl Violation {
    /// A fault.
    pub fn new(check: Check, what: impl Into<String>) -> Self {
        Self {
            check,
            what: what.into(),
        }
    }
}
