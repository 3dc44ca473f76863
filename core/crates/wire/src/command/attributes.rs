//! Properties of commands that servers look up instead of listing commands.

/// Set of properties of a command, from `proto/commands.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes(u8);

impl Attributes {
    /// No property.
    pub const NONE: Self = Self(0);
    /// Holders of a ticket may send the command; if it names a consumer, only one outside of groups.
    pub const TICKETS: Self = Self(1);
    /// The payload has the limit of messages instead of that of other requests.
    pub const CARRIES_MESSAGES: Self = Self(1 << 1);
    /// Allowed while the connection watches partitions.
    pub const WHILE_WATCHING: Self = Self(1 << 2);
    /// The response contains statistics, which a gateway gathers from the nodes first.
    pub const STATISTICS: Self = Self(1 << 3);
    /// The response has an empty payload if the object does not exist.
    pub const MAY_BE_MISSING: Self = Self(1 << 4);
    /// The request to a partition changes nothing, so it is sent again after a lost connection.
    pub const READ_ONLY: Self = Self(1 << 5);
    /// The response may be large: the user's share of memory has to have room for it first.
    pub const LARGE_RESPONSE: Self = Self(1 << 6);

    /// Return the set with this property added.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Return whether the set has this property.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Servers that announce and serve a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedBy {
    /// Every server.
    All,
    /// Servers at which users log in: gateways and embedded servers.
    Gateways,
    /// Partition nodes, which accept tickets.
    PartitionNodes,
    /// Gateways and embedded servers that have a key to sign tickets.
    TicketIssuers,
}
