//! A header with its body.

use alloc::vec::Vec;

use headrace_buffer::Slice;

use super::area::{Area, CommandArea, Prepare};
use super::field::number;
use super::{
    HEADER_BYTES, Header, Origin, PROTOCOL, PrepareHeader, Reject, checksum_body, checksum_header,
};

/// A header with its body, which it shares with whoever else holds the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<A = Area> {
    /// The header; its checksums hold.
    pub header: Header<A>,
    /// The body.
    pub body: Slice,
}

/// A prepare with its body.
pub type PrepareFrame = Frame<Prepare>;

impl<A: CommandArea> Frame<A> {
    /// A frame of this author.
    ///
    /// # Panics
    /// When the body has 4 GiB or more.
    pub fn seal(origin: Origin, area: A, body: Slice) -> Self {
        Self {
            header: Header::seal(origin, area, &body),
            body,
        }
    }

    /// Bytes of the whole frame.
    pub fn size_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }

    /// Appends the whole frame to `bytes`.
    pub fn encode_to(&self, bytes: &mut Vec<u8>) {
        bytes.reserve(self.size_bytes());
        bytes.extend_from_slice(&self.header.encode());
        bytes.extend_from_slice(&self.body);
    }

    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_to(&mut bytes);
        bytes
    }

    /// The same frame, of any command.
    pub fn any(self) -> Frame {
        Frame {
            header: self.header.any(),
            body: self.body,
        }
    }
}

impl Frame {
    /// The frame as a prepare, when it is one.
    pub fn into_prepare(self) -> Option<PrepareFrame> {
        Some(Frame {
            header: self.header.as_prepare()?,
            body: self.body,
        })
    }
}

impl PrepareFrame {
    /// Joins a header with the body that was stored or sent for it.
    ///
    /// # Errors
    /// [`Reject::Size`] or [`Reject::BodyChecksum`] when it is not its body.
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

/// What a node accepts from its peers: the way from bytes to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intake {
    /// The cluster that the node belongs to.
    pub cluster: u128,
    /// Bytes of a frame at most.
    pub message_size_max: u32,
}

impl Intake {
    /// The size of the frame that starts with these 256 bytes: how much a connection has to read.
    ///
    /// # Errors
    /// [`Reject::HeaderChecksum`], [`Reject::Cluster`], [`Reject::Protocol`] or [`Reject::Size`]. The connection cannot
    /// find the next frame then and has to be closed.
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

    /// The header of the frame that these bytes are, checked with its body in every way that needs no knowledge of the
    /// group.
    ///
    /// # Errors
    /// Any reason but an unknown [`Reject::Group`] and [`Reject::Replica`], which the receiver finds out.
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

    /// The frame that these bytes are, checked as by [`Self::check`]. The body shares the memory of `bytes`.
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
