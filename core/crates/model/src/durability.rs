//! Durability levels of acknowledgements.

use core::fmt;
use core::str::FromStr;

/// Durability that an acknowledgement of a produced batch promises. The numbers are those of `catalog.proto`.
///
/// Code outside of this file asks a level what follows from it and never compares it, so that a new level is decided
/// here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Durability {
    /// Queued in memory: lost if the process dies before the next flush.
    Memory = 1,
    /// Written to the operating system: survives the death of the process.
    #[default]
    Os = 2,
    /// Synced to the device: survives a loss of power.
    Fsync = 3,
}

/// One of the four ends of a log. A log acknowledges messages, and shows them to readers, as soon as they are before
/// the end that its durability names; a replicated one, as soon as they are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEnd {
    /// End of the messages that the log has taken, also those only in memory.
    Appended,
    /// End of the messages in the log file.
    Written,
    /// End of the messages on the device.
    Synced,
    /// End of the messages that enough replicas hold, each at the level of the durability.
    Committed,
}

/// The text is not the name of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownDurability;

impl Durability {
    /// Every level, from the weakest to the strongest promise.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Os, Self::Fsync];

    /// Name used in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Os => "os",
            Self::Fsync => "fsync",
        }
    }

    /// Number in the catalog; never 0, which stands for the setting of the server.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// Return the level with this number in the catalog.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.code() == code)
    }

    /// End of the log up to which messages are acknowledged and visible.
    #[inline]
    pub const fn acknowledged_end(self) -> LogEnd {
        match self {
            Self::Memory => LogEnd::Appended,
            Self::Os => LogEnd::Written,
            Self::Fsync => LogEnd::Synced,
        }
    }

    /// Return whether writes are delayed to make them larger, because no acknowledgement waits for them.
    #[inline]
    pub const fn delays_writes(self) -> bool {
        match self {
            Self::Memory => true,
            Self::Os | Self::Fsync => false,
        }
    }

    /// Return whether acknowledgements wait for a sync, so that a sync is due after every write.
    #[inline]
    pub const fn awaits_sync(self) -> bool {
        match self {
            Self::Memory | Self::Os => false,
            Self::Fsync => true,
        }
    }

    /// Return whether only a sync in the background, by time or size, limits the loss in a power failure.
    #[inline]
    pub const fn needs_background_sync(self) -> bool {
        match self {
            Self::Memory | Self::Os => true,
            Self::Fsync => false,
        }
    }

    /// Return whether the answer to a consumer that stores an offset waits until the offset is written.
    #[inline]
    pub const fn awaits_offset_write(self) -> bool {
        match self {
            Self::Memory => false,
            Self::Os | Self::Fsync => true,
        }
    }

    /// Return whether the answer to a consumer that stores an offset waits until the offset is synced.
    #[inline]
    pub const fn awaits_offset_sync(self) -> bool {
        match self {
            Self::Memory | Self::Os => false,
            Self::Fsync => true,
        }
    }
}

impl FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut levels = Self::ALL.into_iter();
        levels
            .find(|level| level.name() == text)
            .ok_or(UnknownDurability)
    }
}

impl fmt::Display for UnknownDurability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("durability is one of")?;
        for (index, level) in Durability::ALL.iter().enumerate() {
            let separator = if index == 0 { " " } else { ", " };
            write!(formatter, "{separator}{}", level.name())?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownDurability {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for durability in Durability::ALL {
            assert_eq!(durability.name().parse(), Ok(durability));
            assert_eq!(Durability::from_code(durability.code()), Some(durability));
        }
        assert_eq!("sync".parse::<Durability>(), Err(UnknownDurability));
        assert_eq!(Durability::from_code(0), None);
    }
}
