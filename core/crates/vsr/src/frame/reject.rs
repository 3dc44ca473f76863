//! Why a frame was dropped.

use thiserror::Error;

/// Why a frame was dropped. Frames that are dropped are counted by reason and never answered.
///
/// The variants stand in the order in which they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
pub enum Reject {
    /// There are fewer bytes than a header has.
    #[error("the frame is shorter than a header")]
    TooShort,
    /// The header does not have its checksum.
    #[error("the checksum of the header is wrong")]
    HeaderChecksum,
    /// The frame is of another cluster.
    #[error("the frame is of another cluster")]
    Cluster,
    /// Its protocol is not ours.
    #[error("the protocol of the frame is unknown")]
    Protocol,
    /// Its size is below a header, above what is accepted, or not the number of bytes that there are.
    #[error("the size of the frame is out of bounds")]
    Size,
    /// The body does not have its checksum.
    #[error("the checksum of the body is wrong")]
    BodyChecksum,
    /// No command has this number.
    #[error("the command of the frame is unknown")]
    Command,
    /// A flag or a byte that must be zero is not.
    #[error("reserved bytes of the frame are not zero")]
    Reserved,
    /// A field of the command's area has a value that it cannot have.
    #[error("a field of the command is invalid")]
    Area,
    /// The body is not what the command's area announces.
    #[error("the body does not fit its command")]
    Body,
    /// The group is not here, or a frame of a node names one.
    #[error("the group of the frame is unknown")]
    Group,
    /// No member of the group has the author's index.
    #[error("the author of the frame is not a member")]
    Replica,
}

impl Reject {
    /// Every reason, in the order in which they are checked.
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

    /// Name for metrics: lower case with underscores.
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
