//! Status codes: the number at the start of every response.

use core::fmt;

/// Outcome of a request: 0 is success, every other value an error code of `proto/errors.toml`.
///
/// Undefined codes can be represented, because a newer peer may send codes that this registry does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub u32);

include!(concat!(env!("OUT_DIR"), "/status.rs"));

/// One entry of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusInfo {
    /// The code.
    pub status: Status,
    /// The name in `CamelCase`, unique.
    pub name: &'static str,
    /// Description as one sentence for people.
    pub description: &'static str,
    /// Component that produces the status.
    pub origin: Origin,
    /// True if the unchanged request may succeed when it is repeated, after reconnecting and logging in again where
    /// needed.
    pub retryable: bool,
}

/// Component that produces a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A server in normal operation.
    Wire,
    /// A server after a disk or internal failure.
    WireInternal,
    /// A server that fails to start.
    Startup,
    /// The HTTP interface only.
    Http,
    /// Client libraries only.
    Client,
    /// Unused: the number stays reserved with its meaning.
    Never,
}

impl Status {
    /// Success.
    pub const OK: Self = Self(0);

    /// Return whether the request succeeded.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// All defined error codes, ascending; success is not included.
    pub fn registry() -> &'static [StatusInfo] {
        &REGISTRY
    }

    /// Registry entry; `None` for success and for undefined codes.
    pub fn info(self) -> Option<&'static StatusInfo> {
        let index = REGISTRY
            .binary_search_by_key(&self, |info| info.status)
            .ok()?;
        REGISTRY.get(index)
    }

    /// Name in `CamelCase`, `Ok` for success; `None` for undefined codes.
    pub fn name(self) -> Option<&'static str> {
        if self.is_ok() {
            return Some("Ok");
        }
        self.info().map(|info| info.name)
    }

    /// Description as one sentence for people.
    pub fn description(self) -> &'static str {
        if self.is_ok() {
            return "The request succeeded.";
        }
        self.info()
            .map_or("An undefined status.", |info| info.description)
    }

    /// Return whether repeating the unchanged request may succeed. Undefined codes are not retryable.
    pub fn is_retryable(self) -> bool {
        self.info().is_some_and(|info| info.retryable)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(formatter, "{name} ({})", self.0),
            None => write!(formatter, "status {}", self.0),
        }
    }
}

impl core::error::Error for Status {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn the_registry_is_complete_and_sorted() {
        // Codes from 20000 on are extensions.
        let classic = Status::registry()
            .iter()
            .filter(|info| info.status.0 < 20_000);
        assert_eq!(classic.count(), 223);
        assert!(Status::registry().is_sorted_by(|a, b| a.status < b.status));
        for info in Status::registry() {
            assert_eq!(info.status.info(), Some(info));
            assert!(!info.status.is_ok());
        }
    }

    #[test]
    fn codes_have_names_and_descriptions() {
        assert_eq!(Status::INVALID_COMMAND, Status(3));
        assert_eq!(Status::INVALID_RESERVED_FIELD, Status(4101));
        assert_eq!(Status(1009).name(), Some("StreamIdNotFound"));
        assert_eq!(Status(1009).to_string(), "StreamIdNotFound (1009)");
        assert_eq!(Status::OK.name(), Some("Ok"));
        assert_eq!(Status(17).name(), None);
        assert_eq!(Status(17).to_string(), "status 17");
        assert_eq!(Status(17).description(), "An undefined status.");
        assert!(Status::DISCONNECTED.is_retryable());
        assert!(!Status::UNAUTHORIZED.is_retryable());
        assert!(!Status(60_000).is_retryable());
    }
}
