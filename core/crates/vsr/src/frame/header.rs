//! The header of a frame.

use super::area::{Area, CommandArea, Prepare};
use super::field::{Field, number};
use super::{
    Command, FrameFlags, HEADER_BYTES, Operation, PROTOCOL, Reject, Release, checksum_body,
    checksum_header,
};

/// Who speaks, and from where: what all frames of a replica have in common at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The cluster.
    pub cluster: u128,
    /// The group; 0 in frames of the node itself.
    pub group: u64,
    /// The view of the author.
    pub view: u32,
    /// The epoch of the author's member list.
    pub epoch: u32,
    /// The author's index; of a client: 0.
    pub replica: u8,
    /// The author's release.
    pub release: Release,
    /// What the author says about itself.
    pub flags: FrameFlags,
    /// How often the author has started.
    pub incarnation: u64,
}

/// The header of a frame, with the area of any command or of the command `A`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<A = Area> {
    /// Checksum of the header itself.
    pub checksum: u128,
    /// Checksum of the body.
    pub checksum_body: u128,
    /// The cluster.
    pub cluster: u128,
    /// Bytes of header and body.
    pub size: u32,
    /// The view of the author; of a prepare: the view that it was prepared in.
    pub view: u32,
    /// The author's release. Of a prepare: the release in force, which whoever executes it has to know. Of a request: the
    /// release since which its command exists.
    pub release: Release,
    /// The author's index; of a client: 0.
    pub replica: u8,
    /// Version of the protocol; 0 only in blank headers.
    pub protocol: u16,
    /// The group; 0 in frames of the node itself.
    pub group: u64,
    /// The epoch of the author's member list.
    pub epoch: u32,
    /// What the author says about itself.
    pub flags: FrameFlags,
    /// How often the author has started.
    pub incarnation: u64,
    /// The command's own fields.
    pub area: A,
}

/// The header of a prepare: an element of the log.
pub type PrepareHeader = Header<Prepare>;

impl<A: CommandArea> Header<A> {
    /// The header of a frame with this body, checksums included.
    ///
    /// # Panics
    /// When the body has 4 GiB or more.
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

    /// The same header, with the checksum that its other fields give.
    #[must_use]
    pub fn with_checksum(mut self) -> Self {
        self.checksum = checksum_header(&self.encode());
        self
    }

    /// The command.
    pub fn command(&self) -> Command {
        self.area.command()
    }

    /// Bytes of the body.
    pub fn body_bytes(&self) -> usize {
        (self.size as usize).saturating_sub(HEADER_BYTES)
    }

    /// The 256 bytes.
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

    /// Reads a header whose checksum holds. Cluster, protocol, size and body are the caller's to check: see
    /// [`Intake`](super::Intake) for frames that a peer has sent.
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

    /// The same header with another view of its area.
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

    /// The same header, of any command.
    pub fn any(self) -> Header {
        self.with_area(self.area.into())
    }
}

impl Header {
    /// The header of a prepare, when it is one.
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
    /// The constant prepare with op 0 of a group: what the first prepare has as its parent.
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

    /// Holds the place of an unknown header: everything but command, op and checksum is zero.
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

    /// Whether it only holds a place.
    pub fn is_blank(&self) -> bool {
        self.area.operation == Operation::BLANK
    }

    /// The release in force: what this prepare and those behind it may need.
    pub fn release_in_force(&self) -> Release {
        self.release.max(Release::FIRST)
    }

    /// Position in the log.
    pub const fn op(&self) -> u64 {
        self.area.op
    }

    /// Checksum of the prepare with the op before.
    pub const fn parent(&self) -> u128 {
        self.area.parent
    }
}
