/// Severity of an event that a component reports to its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Normal operation.
    Info,
    /// Unexpected condition that is handled: an operator should look at it.
    Warning,
    /// Failure: an operator has to act.
    Error,
}

impl Level {
    /// Name used in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}
