//! Operations: the effect of a prepare on the state.
//!
//! Codes 5 (change of the member list) and 64 to 68 (operations of partitions) are reserved: they were defined, but no
//! release has prepared them.

/// Effect of a prepare on the state; one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation(u8);

impl Operation {
    /// No operation: placeholder in a list of headers.
    pub const BLANK: Self = Self(0);
    /// Constant prepare with op 0.
    pub const ROOT: Self = Self(1);
    /// Open a client's session.
    pub const REGISTER: Self = Self(2);
    /// End a client's session.
    pub const UNREGISTER: Self = Self(3);
    /// Change nothing.
    pub const NOOP: Self = Self(4);
    /// Put a newer release in force: later prepares may use its commands.
    pub const RELEASE: Self = Self(6);
    /// Pass the time to the state machine.
    pub const ADVANCE_TIME: Self = Self(7);
    /// First code of the metadata commands.
    pub const METADATA_FIRST: Self = Self(16);
    /// Last code of the metadata commands.
    pub const METADATA_LAST: Self = Self(63);

    /// Operation with this code, if there is one.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0..=4 | 6..=7 | 16..=63 => Some(Self(code)),
            _ => None,
        }
    }

    /// Code on the wire.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Return whether the metadata state machine executes this operation.
    pub const fn is_metadata(self) -> bool {
        matches!(self.0, 16..=63)
    }

    /// Return whether the state machine executes this operation; the protocol's own operations change only the log and the
    /// sessions.
    pub const fn is_for_state_machine(self) -> bool {
        self.0 == Self::ADVANCE_TIME.0 || self.is_metadata()
    }

    /// Return whether a client may request this operation. Only primaries prepare the others, on their own initiative.
    pub const fn is_requestable(self) -> bool {
        matches!(self.0, 2..=4 | 6 | 16..=63)
    }
}
