//! Frame flags, and the release of a program.

use core::fmt;
use core::ops::BitOr;

/// Flags by which the author of a frame describes itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FrameFlags(u32);

impl FrameFlags {
    /// No flag set.
    pub const NONE: Self = Self(0);
    /// The author requests a [`CommitOk`](super::Command::CommitOk).
    pub const WANT_ACK: Self = Self(1 << 1);

    /// Bits 0, 2 and 3 are reserved for suspects, learners and leases, which are not built.
    const KNOWN: u32 = 0b10;

    /// Flags with these bits, if all bits are known.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        if bits & !Self::KNOWN == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Bits on the wire.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Return whether all of `flags` are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for FrameFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Format of the body of a prepare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PrepareFlags(u8);

impl PrepareFlags {
    /// The body belongs to a single request.
    pub const NONE: Self = Self(0);
    /// The body begins with a table of requests; see [`multi`](super::body::multi).
    pub const MULTI: Self = Self(1 << 1);

    const KNOWN: u8 = 0b10;

    /// Flags with these bits, if all bits are known.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::KNOWN == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Bits on the wire.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Return whether all of `flags` are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// Release of a program: `major << 16 | minor << 8 | patch`, ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(pub u32);

impl Release {
    /// First release: in force until a later one is.
    pub const FIRST: Self = Self::new(0, 1, 0);

    /// The release without its patch number: patches add no commands and change no rules.
    #[must_use]
    pub const fn without_patch(self) -> Self {
        Self(self.0 & !0xFF)
    }

    /// Release with these three numbers.
    pub const fn new(major: u16, minor: u8, patch: u8) -> Self {
        Self((major as u32) << 16 | (minor as u32) << 8 | patch as u32)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}.{}.{}",
            self.0 >> 16,
            self.0 >> 8 & 0xff,
            self.0 & 0xff
        )
    }
}
