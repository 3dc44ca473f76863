//! Status codes: the number at the start of every response.

use core::fmt;

/// What a response says of its request: 0 is success, everything else a code of `proto/errors.toml`.
///
/// Any number can be held, because a newer peer may send codes that this registry does not know.
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
    /// What happened, as one sentence for people.
    pub description: &'static str,
    /// Who produces it.
    pub origin: Origin,
    /// The unchanged request may succeed when it is repeated, after connecting and logging in again where needed.
    pub retryable: bool,
}

/// Who produces a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A server, in normal operation.
    Wire,
    /// A server, when its disk or internals fail.
    WireInternal,
    /// A server that cannot start.
    Startup,
    /// The HTTP interface only.
    Http,
    /// Client libraries only.
    Client,
    /// Nobody: the number keeps its meaning.
    Never,
}

impl Status {
    /// Success.
    pub const OK: Self = Self(0);

    /// Whether the request succeeded.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// Every defined code, ascending; success is not among them.
    pub fn registry() -> &'static [StatusInfo] {
        &REGISTRY
    }

    /// The entry of the registry; `None` for success and for undefined codes.
    pub fn info(self) -> Option<&'static StatusInfo> {
        let index = REGISTRY
            .binary_search_by_key(&self, |info| info.status)
            .ok()?;
        REGISTRY.get(index)
    }

    /// The name in `CamelCase`, `Ok` for success; `None` for undefined codes.
    pub fn name(self) -> Option<&'static str> {
        if self.is_ok() {
            return Some("Ok");
        }
        self.info().map(|info| info.name)
    }

    /// What happened, as one sentence for people.
    pub fn description(self) -> &'static str {
        if self.is_ok() {
            return "The request succeeded.";
        }
        self.info()
            .map_or("An undefined status.", |info| info.description)
    }

    /// Whether repeating the unchanged request may succeed. Undefined codes are not retryable.
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
        // From 20000 on they are our own.
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
