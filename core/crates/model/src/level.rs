/// How much an event matters that a part tells the process it lives in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Normal operation.
    Info,
    /// Something is not as it should be, and is coped with: somebody should look at it.
    Warning,
    /// Something does not work: somebody has to act.
    Error,
}

impl Level {
    /// The name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}
