//! Frames: headers with their bodies.

use alloc::vec::Vec;

use headrace_buffer::Slice;

use super::area::{Area, CommandArea, Prepare};
use super::field::number;
use super::{
    HEADER_BYTES, Header, Origin, PROTOCOL, PrepareHeader, Reject, checksum_body, checksum_header,
};

/// Header with its body, whose memory is shared with the other owners of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<A = Area> {
    /// Header; its checksums are valid.
    pub header: Header<A>,
    /// Body of the frame.
    pub body: Slice,
}

/// Prepare with its body.
pub type PrepareFrame = Frame<Prepare>;

impl<A: CommandArea> Frame<A> {
    /// Create a frame of this author.
    ///
    /// # Panics
    /// If the body has 4 GiB or more.
    pub fn seal(origin: Origin, area: A, body: Slice) -> Self {
        Self {
            header: Header::seal(origin, area, &body),
            body,
        }
    }

    /// Number of bytes of header and body.
    pub fn size_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }

    /// Append the whole frame to `bytes`.
    pub fn encode_to(&self, bytes: &mut Vec<u8>) {
        bytes.reserve(self.size_bytes());
        bytes.extend_from_slice(&self.header.encode());
        bytes.extend_from_slice(&self.body);
    }

    /// Encode header and body.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_to(&mut bytes);
        bytes
    }

    /// The same frame with the area of any command.
    pub fn any(self) -> Frame
    where
        A: Into<Area>,
    {
        Frame {
            header: self.header.any(),
            body: self.body,
        }
    }
}

impl Frame {
    /// The frame as a prepare, if it is one.
    pub fn into_prepare(self) -> Option<PrepareFrame> {
        Some(Frame {
            header: self.header.as_prepare()?,
            body: self.body,
        })
    }
}

impl PrepareFrame {
    /// Join a header with the body that was stored or sent for it.
    ///
    /// # Errors
    /// [`Reject::Size`] or [`Reject::BodyChecksum`] if the body does not belong to the header.
    pub fn join(header: PrepareHeader, body: Slice) -> Result<Self, Reject> {
        if header.size as usize != HEADER_BYTES + body.len() {
            return Err(Reject::Size);
        }
        if header.checksum_body != checksum_body(&body) {
            return Err(Reject::BodyChecksum);
        }
        Ok(Self { header, body })
    }
}

impl From<PrepareFrame> for Frame {
    fn from(frame: PrepareFrame) -> Self {
        frame.any()
    }
}

/// Decoder for frames from peers, with the limits that this node accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intake {
    /// Cluster of this node.
    pub cluster: u128,
    /// Maximum size of a frame in bytes.
    pub message_size_max: u32,
}

impl Intake {
    /// Size of the frame that starts with these 256 bytes, which a connection must read in full.
    ///
    /// # Errors
    /// [`Reject::HeaderChecksum`], [`Reject::Cluster`], [`Reject::Protocol`] or [`Reject::Size`]. The start of the next
    /// frame is then unknown, and the connection must be closed.
    pub fn frame_size(&self, header: &[u8; HEADER_BYTES]) -> Result<u32, Reject> {
        if number::<u128>(header, 0) != checksum_header(header) {
            return Err(Reject::HeaderChecksum);
        }
        if number::<u128>(header, 32) != self.cluster {
            return Err(Reject::Cluster);
        }
        if number::<u16>(header, 62) != PROTOCOL {
            return Err(Reject::Protocol);
        }
        let size = number::<u32>(header, 48);
        if (size as usize) < HEADER_BYTES || size > self.message_size_max {
            return Err(Reject::Size);
        }
        Ok(size)
    }

    /// Decode the header and check the frame in every way that needs no knowledge of the group.
    ///
    /// # Errors
    /// Any reason except an unknown [`Reject::Group`] and [`Reject::Replica`], which the receiver detects.
    pub fn check(&self, bytes: &[u8]) -> Result<Header, Reject> {
        let (head, body) = bytes.split_first_chunk().ok_or(Reject::TooShort)?;
        if self.frame_size(head)? as usize != bytes.len() {
            return Err(Reject::Size);
        }
        if number::<u128>(head, 16) != checksum_body(body) {
            return Err(Reject::BodyChecksum);
        }
        let header = Header::decode(head)?;
        super::body::check(&header, body)?;
        Ok(header)
    }

    /// Decode a frame, checked as by [`Self::check`]. The body shares the memory of `bytes`.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn decode(&self, bytes: &Slice) -> Result<Frame, Reject> {
        Ok(Frame {
            header: self.check(bytes)?,
            body: bytes.slice(HEADER_BYTES..),
        })
    }
}
