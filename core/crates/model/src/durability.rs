//! Durability levels of acknowledgements.

use core::str::FromStr;

/// Durability that an acknowledgement of a produced batch promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Durability {
    /// Queued in memory: lost if the process dies before the next flush.
    Memory,
    /// Written to the operating system: survives the death of the process.
    #[default]
    Os,
    /// Synced to the device: survives a loss of power.
    Fsync,
}

/// The text is none of `memory`, `os` and `fsync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("durability is one of memory, os and fsync")]
pub struct UnknownDurability;

impl Durability {
    /// Name used in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Os => "os",
            Self::Fsync => "fsync",
        }
    }
}

impl FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "memory" => Ok(Self::Memory),
            "os" => Ok(Self::Os),
            "fsync" => Ok(Self::Fsync),
            _ => Err(UnknownDurability),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for durability in [Durability::Memory, Durability::Os, Durability::Fsync] {
            assert_eq!(durability.name().parse(), Ok(durability));
        }
        assert_eq!("sync".parse::<Durability>(), Err(UnknownDurability));
    }
}
