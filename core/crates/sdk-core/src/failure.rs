//! Reasons why a request has no successful answer.

use std::time::Duration;

use headrace_wire::{CommandCode, Status};

use crate::OwnedIdentifier;

/// Reason why a request has no successful answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server refused the request.
    #[error("{}", refusal(*.code, *.status, .explanation))]
    Refused {
        /// Code of the command.
        code: u32,
        /// Status of the answer.
        status: Status,
        /// Explanation by the server; may be empty.
        explanation: String,
    },
    /// The connection broke before the request was written completely, so it was not executed.
    #[error("the request was not sent: {reason}")]
    NotSent {
        /// Reason of the break.
        reason: String,
    },
    /// The connection broke before the answer arrived: the request may or may not have been executed.
    #[error("the connection broke before the answer: {reason}")]
    Unanswered {
        /// Reason of the break.
        reason: String,
    },
    /// The deadline of the caller has passed.
    #[error("{}", late(*.after, *.is_sent))]
    Late {
        /// Time that was allowed.
        after: Duration,
        /// True if the request may have been executed.
        is_sent: bool,
    },
    /// No server could be reached, or none let the client log in.
    #[error("{reason}")]
    Unreachable {
        /// Description, with the address.
        reason: String,
    },
    /// The login was refused; reconnecting would not help.
    #[error("the login was refused: {}", unfinished(.status.description()))]
    LoginRefused {
        /// Status of the answer.
        status: Status,
    },
    /// The answer cannot be decoded.
    #[error("the answer to {} cannot be decoded: {reason}", name(*.code))]
    Malformed {
        /// Code of the command.
        code: u32,
        /// Description of the defect.
        reason: String,
    },
    /// A value cannot be sent, such as a name of more than 255 bytes.
    #[error("{reason}")]
    Unrepresentable {
        /// Description of the value.
        reason: String,
    },
    /// The session was closed by its owner.
    #[error("the client is closed")]
    Closed,
}

impl Failure {
    /// Failure of a request for a topic to which the server answers that there is none.
    pub fn missing_topic(stream: &OwnedIdentifier, topic: &OwnedIdentifier) -> Self {
        Self::Refused {
            code: CommandCode::GetTopic.code(),
            status: Status::TOPIC_ID_NOT_FOUND,
            explanation: format!("there is no topic {topic} in stream {stream}"),
        }
    }

    /// Return whether the request was certainly not executed.
    pub fn is_certainly_not_executed(&self) -> bool {
        !matches!(
            self,
            Self::Unanswered { .. } | Self::Late { is_sent: true, .. } | Self::Malformed { .. }
        )
    }

    /// Return whether the server has refused the request for the moment: it may succeed later.
    pub(crate) fn is_temporary(&self) -> bool {
        let info = self.status().and_then(Status::info);
        matches!(self, Self::Refused { .. }) && info.is_some_and(|info| info.retryable)
    }

    /// Status of the server's answer, if there was one.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Refused { status, .. } | Self::LoginRefused { status } => Some(*status),
            _ => None,
        }
    }
}

fn name(code: u32) -> &'static str {
    CommandCode::try_from(code).map_or("a request", CommandCode::name)
}

fn late(after: Duration, is_sent: bool) -> String {
    let seconds = after.as_secs_f64();
    if is_sent {
        return format!("no answer within {seconds} s: the server may have executed the request");
    }
    format!("not sent within {seconds} s, because there was no connection to a server")
}

fn refusal(code: u32, status: Status, explanation: &str) -> String {
    let what = if explanation.is_empty() {
        status.description()
    } else {
        explanation
    };
    let known = status.name().unwrap_or("an undefined status");
    format!(
        "{} was refused: {} ({known}, {})",
        name(code),
        unfinished(what),
        status.0
    )
}

/// A sentence without its full stop: callers go on after it.
fn unfinished(sentence: &str) -> &str {
    sentence.strip_suffix('.').unwrap_or(sentence)
}
