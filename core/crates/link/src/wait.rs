//! Polls that wait.

/// Ways to end the wait of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndWait {
    /// Answer the poll with the available messages.
    Take,
    /// Refuse the poll as [`Refusal::NotReady`](crate::Refusal::NotReady), unless it has already received messages.
    Refuse,
    /// Cancel the notification without a response.
    Cancel,
}

/// Handling of a poll that may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenReady {
    /// Answer the poll as soon as enough messages are available.
    Answer,
    /// Answer the poll if enough messages are available now; otherwise refuse it as
    /// [`Refusal::NotReady`](crate::Refusal::NotReady).
    AnswerNow,
    /// Do not answer the poll: notify with [`crate::ToGateway::PollReady`] when enough messages are available. The partition
    /// removes the poll after the notification.
    Notify,
}
