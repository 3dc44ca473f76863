//! Checkers of a run. Each uses only externally visible events: operations executed, answers given and frames sent.

mod alarms;
mod canon;
mod history;
mod messages;
mod progress;
mod reference;
mod search;
mod stored;
mod violation;

pub use alarms::{Alarm, Cause, Causes, Verdict, check_verdict};
pub use canon::{CanonicalHistory, Executed};
pub use history::{Call, CallResult, History, Invocation};
pub use messages::{BatchNumber, End, PartitionMessages, ReadMessage};
pub use progress::{Progress, ReplicaState};
pub use reference::Reference;
pub use search::{CALLS_MAX, SEARCHED, Searched, search};
pub use stored::StoredOffset;
pub use violation::{Check, Violation};
