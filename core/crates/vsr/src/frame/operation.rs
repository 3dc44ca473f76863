//! Operations: the effect of a prepare on the state.

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
    /// Change the member list.
    pub const RECONFIGURE: Self = Self(5);
    /// Put a newer release in force: later prepares may use its commands.
    pub const RELEASE: Self = Self(6);
    /// Pass the time to the state machine.
    pub const ADVANCE_TIME: Self = Self(7);
    /// First code of the metadata commands.
    pub const METADATA_FIRST: Self = Self(16);
    /// Last code of the metadata commands.
    pub const METADATA_LAST: Self = Self(63);
    /// Append messages to a partition.
    pub const SEND_MESSAGES: Self = Self(64);
    /// Store a consumer's offset.
    pub const STORE_OFFSET: Self = Self(65);
    /// Delete a consumer's offset.
    pub const DELETE_OFFSET: Self = Self(66);
    /// Remove the oldest messages of a partition.
    pub const TRIM_LOG: Self = Self(67);
    /// Remove all messages of a partition.
    pub const PURGE: Self = Self(68);

    /// Operation with this code, if there is one.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0..=7 | 16..=68 => Some(Self(code)),
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

    /// Return whether the state machine of a partition executes this operation.
    pub const fn is_partition(self) -> bool {
        matches!(self.0, 64..=68)
    }

    /// Return whether a client may request this operation. Only primaries prepare the others, on their own initiative.
    pub const fn is_requestable(self) -> bool {
        matches!(self.0, 2..=6 | 16..=68)
    }
}
