//! Header of a frame.

use super::area::{Area, CommandArea, Prepare};
use super::field::{Field, number};
use super::{
    Command, FrameFlags, HEADER_BYTES, Operation, PROTOCOL, Reject, Release, checksum_body,
    checksum_header,
};

/// Author of a frame: the header fields that all frames of a replica share at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Cluster id.
    pub cluster: u128,
    /// Group number; 0 in frames of the node itself.
    pub group: u64,
    /// View of the author.
    pub view: u32,
    /// Epoch of the author's member list.
    pub epoch: u32,
    /// Index of the author; 0 for a client.
    pub replica: u8,
    /// Release of the author.
    pub release: Release,
    /// Flags of the author.
    pub flags: FrameFlags,
    /// Incarnation: number of starts of the author.
    pub incarnation: u64,
}

/// Header of a frame, with the area of any command or of the command `A`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<A = Area> {
    /// Checksum of the header itself.
    pub checksum: u128,
    /// Checksum of the body.
    pub checksum_body: u128,
    /// Cluster id.
    pub cluster: u128,
    /// Number of bytes of header and body.
    pub size: u32,
    /// View of the author; in a prepare, the view in which it was prepared.
    pub view: u32,
    /// Release of the author. In a prepare: the release in force, which a replica must support to execute it. In a
    /// request: the first release that supports its command.
    pub release: Release,
    /// Index of the author; 0 for a client.
    pub replica: u8,
    /// Protocol version; 0 only in blank headers.
    pub protocol: u16,
    /// Group number; 0 in frames of the node itself.
    pub group: u64,
    /// Epoch of the author's member list.
    pub epoch: u32,
    /// Flags of the author.
    pub flags: FrameFlags,
    /// Incarnation: number of starts of the author.
    pub incarnation: u64,
    /// Fields of the command.
    pub area: A,
}

/// Header of a prepare: an entry of the log.
pub type PrepareHeader = Header<Prepare>;

impl<A: CommandArea> Header<A> {
    /// Create the header of a frame with this body, including the checksums.
    ///
    /// # Panics
    /// If the body has 4 GiB or more.
    pub fn seal(origin: Origin, area: A, body: &[u8]) -> Self {
        let size = u32::try_from(HEADER_BYTES + body.len()).expect("a body is far below 4 GiB");
        let header = Self {
            checksum: 0,
            checksum_body: checksum_body(body),
            cluster: origin.cluster,
            size,
            view: origin.view,
            release: origin.release,
            replica: origin.replica,
            protocol: PROTOCOL,
            group: origin.group,
            epoch: origin.epoch,
            flags: origin.flags,
            incarnation: origin.incarnation,
            area,
        };
        header.with_checksum()
    }

    /// Recompute the checksum over the other fields.
    #[must_use]
    pub fn with_checksum(mut self) -> Self {
        self.checksum = checksum_header(&self.encode());
        self
    }

    /// Command of the frame.
    pub fn command(&self) -> Command {
        self.area.command()
    }

    /// Number of bytes of the body.
    pub fn body_bytes(&self) -> usize {
        (self.size as usize).saturating_sub(HEADER_BYTES)
    }

    /// Encode the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        self.checksum.put(&mut bytes[0..]);
        self.checksum_body.put(&mut bytes[16..]);
        self.cluster.put(&mut bytes[32..]);
        self.size.put(&mut bytes[48..]);
        self.view.put(&mut bytes[52..]);
        self.release.0.put(&mut bytes[56..]);
        self.command().code().put(&mut bytes[60..]);
        self.replica.put(&mut bytes[61..]);
        self.protocol.put(&mut bytes[62..]);
        self.group.put(&mut bytes[64..]);
        self.epoch.put(&mut bytes[72..]);
        self.flags.bits().put(&mut bytes[76..]);
        self.incarnation.put(&mut bytes[80..]);
        self.area.encode(&mut bytes);
        bytes
    }

    /// Decode a header whose checksum holds. The caller checks cluster, protocol, size and body: see
    /// [`Intake`](super::Intake) for frames received from a peer.
    ///
    /// # Errors
    /// [`Reject::HeaderChecksum`], [`Reject::Command`], [`Reject::Reserved`] or [`Reject::Area`].
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Reject> {
        let checksum = number(bytes, 0);
        if checksum != checksum_header(bytes) {
            return Err(Reject::HeaderChecksum);
        }
        let command = Command::from_code(bytes[60]).ok_or(Reject::Command)?;
        if bytes[88..128] != [0; 40] {
            return Err(Reject::Reserved);
        }
        Ok(Self {
            checksum,
            checksum_body: number(bytes, 16),
            cluster: number(bytes, 32),
            size: number(bytes, 48),
            view: number(bytes, 52),
            release: Release(number(bytes, 56)),
            replica: bytes[61],
            protocol: number(bytes, 62),
            group: number(bytes, 64),
            epoch: number(bytes, 72),
            flags: FrameFlags::from_bits(number(bytes, 76)).ok_or(Reject::Reserved)?,
            incarnation: number(bytes, 80),
            area: A::decode(command, bytes)?,
        })
    }

    /// The same header with another type of area.
    pub(super) fn with_area<B>(self, area: B) -> Header<B> {
        Header {
            checksum: self.checksum,
            checksum_body: self.checksum_body,
            cluster: self.cluster,
            size: self.size,
            view: self.view,
            release: self.release,
            replica: self.replica,
            protocol: self.protocol,
            group: self.group,
            epoch: self.epoch,
            flags: self.flags,
            incarnation: self.incarnation,
            area,
        }
    }

    /// The same header with the area of any command.
    pub fn any(self) -> Header
    where
        A: Into<Area>,
    {
        self.with_area(self.area.into())
    }
}

impl Header {
    /// The header as that of a prepare, if it is one.
    pub fn as_prepare(&self) -> Option<PrepareHeader> {
        match self.area {
            Area::Prepare(area) => Some(self.with_area(area)),
            _ => None,
        }
    }
}

impl From<PrepareHeader> for Header {
    fn from(header: PrepareHeader) -> Self {
        header.any()
    }
}

impl PrepareHeader {
    /// Root: constant prepare with op 0 of a group, the parent of the first prepare.
    pub fn root(cluster: u128, group: u64) -> Self {
        let origin = Origin {
            cluster,
            group,
            ..Origin::default()
        };
        let area = Prepare {
            operation: Operation::ROOT,
            ..Prepare::default()
        };
        Self::seal(origin, area, &[])
    }

    /// Placeholder for an unknown header: every field but command, op and checksum is zero.
    pub fn blank(op: u64) -> Self {
        let area = Prepare {
            op,
            ..Prepare::default()
        };
        let header = Self {
            checksum: 0,
            checksum_body: 0,
            cluster: 0,
            size: 0,
            view: 0,
            release: Release(0),
            replica: 0,
            protocol: 0,
            group: 0,
            epoch: 0,
            flags: FrameFlags::NONE,
            incarnation: 0,
            area,
        };
        header.with_checksum()
    }

    /// Return whether this header is only a placeholder.
    pub fn is_blank(&self) -> bool {
        self.area.operation == Operation::BLANK
    }

    /// Release in force: the release that this prepare and later ones may require.
    pub fn release_in_force(&self) -> Release {
        self.release.max(Release::FIRST)
    }

    /// Position in the log.
    pub const fn op(&self) -> u64 {
        self.area.op
    }

    /// Checksum of the prepare at the previous op.
    pub const fn parent(&self) -> u128 {
        self.area.parent
    }
}
