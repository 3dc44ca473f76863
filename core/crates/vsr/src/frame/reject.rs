//! Reasons for dropping a frame.

use thiserror::Error;

/// Reason why a frame was dropped. Dropped frames are counted by reason and never answered.
///
/// The variants are listed in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
pub enum Reject {
    /// The frame is shorter than a header.
    #[error("the frame is shorter than a header")]
    TooShort,
    /// The checksum of the header does not match.
    #[error("the checksum of the header is wrong")]
    HeaderChecksum,
    /// The frame belongs to another cluster.
    #[error("the frame is of another cluster")]
    Cluster,
    /// The protocol version is unknown.
    #[error("the protocol of the frame is unknown")]
    Protocol,
    /// The size is below that of a header, above the accepted maximum, or differs from the number of bytes received.
    #[error("the size of the frame is out of bounds")]
    Size,
    /// The checksum of the body does not match.
    #[error("the checksum of the body is wrong")]
    BodyChecksum,
    /// The command code is unknown.
    #[error("the command of the frame is unknown")]
    Command,
    /// A reserved flag or byte is not zero.
    #[error("reserved bytes of the frame are not zero")]
    Reserved,
    /// A field of the command's area has an invalid value.
    #[error("a field of the command is invalid")]
    Area,
    /// The body does not have the format that the command's area announces.
    #[error("the body does not fit its command")]
    Body,
    /// The group is unknown here, or a frame of a node names a group.
    #[error("the group of the frame is unknown")]
    Group,
    /// No member of the group has the author's index.
    #[error("the author of the frame is not a member")]
    Replica,
}

impl Reject {
    /// All reasons, in the order of the checks.
    pub const ALL: [Self; 12] = [
        Self::TooShort,
        Self::HeaderChecksum,
        Self::Cluster,
        Self::Protocol,
        Self::Size,
        Self::BodyChecksum,
        Self::Command,
        Self::Reserved,
        Self::Area,
        Self::Body,
        Self::Group,
        Self::Replica,
    ];

    /// Name for metrics: snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::HeaderChecksum => "header_checksum",
            Self::Cluster => "cluster",
            Self::Protocol => "protocol",
            Self::Size => "size",
            Self::BodyChecksum => "body_checksum",
            Self::Command => "command",
            Self::Reserved => "reserved",
            Self::Area => "area",
            Self::Body => "body",
            Self::Group => "group",
            Self::Replica => "replica",
        }
    }
}
