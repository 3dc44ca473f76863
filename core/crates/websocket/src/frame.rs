//! Frame headers, control frames and protocol errors.

/// Maximum size of a header: two bytes, 64 bits of length, the masking key.
pub const HEADER_BYTES_MAX: usize = 14;
/// Maximum payload of a control frame.
const CONTROL_PAYLOAD_BYTES_MAX: usize = 125;
/// Maximum size of a masked control frame.
pub const CONTROL_FRAME_BYTES_MAX: usize = 2 + 4 + CONTROL_PAYLOAD_BYTES_MAX;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
/// Reserved bit by which permessage-deflate marks a compressed message. Source: RFC 7692, section 7.2.3.1.
const COMPRESSED: u8 = 0x40;
const MASKED: u8 = 0x80;
/// Value of the length field that announces a 16-bit length.
const LENGTH_OF_16_BITS: u8 = 0x7e;
/// Value of the length field that announces a 64-bit length.
const LENGTH_OF_64_BITS: u8 = 0x7f;

/// Type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// The next fragment of a message.
    Continuation = 0,
    /// A text message or its first fragment.
    Text = 1,
    /// A binary message or its first fragment.
    Binary = 2,
    /// The last frame of a direction.
    Close = 8,
    /// A ping, to be answered with a pong with the same payload.
    Ping = 9,
    /// Response to a ping.
    Pong = 10,
}

impl Opcode {
    fn parse(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// Return whether this is a control frame, which may occur between the fragments of a message.
    pub(crate) fn is_control(self) -> bool {
        self as u8 >= Self::Close as u8
    }
}

/// Close code. Source: RFC 6455, section 7.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// Normal closure.
    pub const NORMAL: Self = Self(1000);
    /// The server shuts down.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// A text is not UTF-8.
    pub const INVALID_DATA: Self = Self(1007);
    /// A frame or a message is larger than allowed.
    pub const TOO_BIG: Self = Self(1009);

    /// Return whether the code is valid in a close frame.
    fn is_allowed(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

/// Protocol violation of the peer: the connection is to be closed with [`ProtocolError::close_code`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A reserved bit is set that no negotiated extension allows here.
    #[error("a reserved bit is set")]
    ReservedBit,
    /// The opcode is undefined.
    #[error("the opcode {0} is unknown")]
    UnknownOpcode(u8),
    /// A server received a frame without a mask.
    #[error("a frame of a client has to be masked")]
    NotMasked,
    /// A client received a frame with a mask.
    #[error("a frame of a server must not be masked")]
    Masked,
    /// A fragmented control frame.
    #[error("a control frame must not be fragmented")]
    FragmentedControl,
    /// A control frame of more than 125 bytes.
    #[error("a control frame carries at most 125 bytes")]
    ControlTooLong,
    /// A continuation without a message.
    #[error("no message is in progress to continue")]
    NothingToContinue,
    /// A new message inside a fragmented one.
    #[error("the message before is not at its end")]
    MessageNotEnded,
    /// A length with its highest bit set.
    #[error("the length of a frame has 63 bits")]
    LengthBeyond63Bits,
    /// A close frame whose payload is not a code and a reason.
    #[error("a close frame without a valid code")]
    InvalidCloseFrame,
    /// A text or a reason that is not UTF-8.
    #[error("a text is not UTF-8")]
    InvalidUtf8,
    /// A frame above the limit.
    #[error("a frame of {size_bytes} B, limit {limit_bytes} B")]
    FrameTooLarge {
        /// Size according to the header.
        size_bytes: u64,
        /// Limit.
        limit_bytes: u64,
    },
    /// A message above the limit.
    #[error("a message of more than {limit_bytes} B")]
    MessageTooLarge {
        /// Limit.
        limit_bytes: u64,
    },
}

impl ProtocolError {
    /// Code with which to close the connection.
    pub fn close_code(self) -> CloseCode {
        match self {
            Self::InvalidUtf8 => CloseCode::INVALID_DATA,
            Self::FrameTooLarge { .. } | Self::MessageTooLarge { .. } => CloseCode::TOO_BIG,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }
}

/// A parsed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) opcode: Opcode,
    pub(crate) is_final: bool,
    pub(crate) is_compressed: bool,
    pub(crate) key: Option<[u8; 4]>,
    pub(crate) payload_bytes: u64,
}

impl Header {
    /// Parse the header at the front of `bytes`, and return it with its length. `None` if it is incomplete.
    ///
    /// `may_compress` is true if permessage-deflate was negotiated.
    pub(crate) fn parse(
        bytes: &[u8],
        may_compress: bool,
    ) -> Result<Option<(Self, usize)>, ProtocolError> {
        let Some(&first) = bytes.first() else {
            return Ok(None);
        };
        // Errors are reported before the header is complete.
        if first & RESERVED & !COMPRESSED != 0 {
            return Err(ProtocolError::ReservedBit);
        }
        let code = first & 0x0f;
        let opcode = Opcode::parse(code).ok_or(ProtocolError::UnknownOpcode(code))?;
        let is_compressed = first & COMPRESSED != 0;
        // The first frame of a message states whether the message is compressed.
        if is_compressed && !(may_compress && matches!(opcode, Opcode::Text | Opcode::Binary)) {
            return Err(ProtocolError::ReservedBit);
        }
        let is_final = first & FINAL != 0;
        if opcode.is_control() && !is_final {
            return Err(ProtocolError::FragmentedControl);
        }
        let Some(&second) = bytes.get(1) else {
            return Ok(None);
        };
        let short = second & !MASKED;
        if opcode.is_control() && usize::from(short) > CONTROL_PAYLOAD_BYTES_MAX {
            return Err(ProtocolError::ControlTooLong);
        }
        let rest = &bytes[2..];
        let (payload_bytes, rest) = match short {
            LENGTH_OF_16_BITS => match rest.split_first_chunk::<2>() {
                Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest),
                None => return Ok(None),
            },
            LENGTH_OF_64_BITS => match rest.split_first_chunk::<8>() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest),
                None => return Ok(None),
            },
            short => (u64::from(short), rest),
        };
        if payload_bytes >> 63 != 0 {
            return Err(ProtocolError::LengthBeyond63Bits);
        }
        let (key, rest) = if second & MASKED == 0 {
            (None, rest)
        } else {
            match rest.split_first_chunk::<4>() {
                Some((key, rest)) => (Some(*key), rest),
                None => return Ok(None),
            }
        };
        let header = Self {
            opcode,
            is_final,
            is_compressed,
            key,
            payload_bytes,
        };
        Ok(Some((header, bytes.len() - rest.len())))
    }
}

/// An encoded header.
#[derive(Debug, Clone, Copy)]
pub struct Encoded {
    bytes: [u8; HEADER_BYTES_MAX],
    len: usize,
}

impl Encoded {
    /// The encoded bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// Header of an unfragmented frame with `payload_bytes` bytes. `key` masks the payload.
pub fn encode_header(opcode: Opcode, payload_bytes: usize, key: Option<[u8; 4]>) -> Encoded {
    let mut header = Encoded {
        bytes: [0; HEADER_BYTES_MAX],
        len: 0,
    };
    let mask = if key.is_some() { MASKED } else { 0 };
    let first = FINAL | opcode as u8;
    if let Ok(short) = u8::try_from(payload_bytes)
        && usize::from(short) <= CONTROL_PAYLOAD_BYTES_MAX
    {
        header.push(&[first, mask | short]);
    } else if let Ok(medium) = u16::try_from(payload_bytes) {
        header.push(&[first, mask | LENGTH_OF_16_BITS]);
        header.push(&medium.to_be_bytes());
    } else {
        header.push(&[first, mask | LENGTH_OF_64_BITS]);
        header.push(&(payload_bytes as u64).to_be_bytes());
    }
    if let Some(key) = key {
        header.push(&key);
    }
    header
}

/// Append a control frame to `out`. The payload is truncated to 125 bytes.
pub fn encode_control(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], key: Option<[u8; 4]>) {
    let payload = &payload[..payload.len().min(CONTROL_PAYLOAD_BYTES_MAX)];
    out.extend_from_slice(encode_header(opcode, payload.len(), key).as_slice());
    let start = out.len();
    out.extend_from_slice(payload);
    if let Some(key) = key {
        crate::apply_mask(&mut out[start..], key, 0);
    }
}

/// Payload of a close frame.
pub fn close_payload(code: CloseCode, reason: &str) -> Vec<u8> {
    let room = CONTROL_PAYLOAD_BYTES_MAX - 2;
    let end = (0..=reason.len().min(room))
        .rev()
        .find(|end| reason.is_char_boundary(*end));
    let reason = &reason[..end.unwrap_or(0)];
    [&code.0.to_be_bytes()[..], reason.as_bytes()].concat()
}

/// Code in the payload of a close frame; `None` if the payload is empty.
pub(crate) fn read_close(payload: &[u8]) -> Result<Option<CloseCode>, ProtocolError> {
    if payload.is_empty() {
        return Ok(None);
    }
    let (code, reason) = payload
        .split_first_chunk::<2>()
        .ok_or(ProtocolError::InvalidCloseFrame)?;
    let code = CloseCode(u16::from_be_bytes(*code));
    if !code.is_allowed() {
        return Err(ProtocolError::InvalidCloseFrame);
    }
    core::str::from_utf8(reason).map_err(|_| ProtocolError::InvalidUtf8)?;
    Ok(Some(code))
}
