//! Polls that wait.

/// How a poll ends its wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopWaiting {
    /// It is answered with what there is now.
    Take,
    /// It is refused as [`Refusal::NotReady`](crate::Refusal::NotReady), unless it was given something already.
    GiveUp,
    /// Nobody has to be told any more.
    Disarm,
}

/// What becomes of a poll that may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenReady {
    /// It is answered as soon as there is enough.
    Answer,
    /// It is answered when there is enough at once, and refused as [`Refusal::NotReady`](crate::Refusal::NotReady) when there is not.
    AtOnce,
    /// It is not answered: that there is enough is told, as with [`ToGateway::Told`](crate::ToGateway::Told). Then the partition has forgotten it.
    Tell,
}
