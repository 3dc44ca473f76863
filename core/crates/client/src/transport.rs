//! Frames over one socket: requests out, responses in, without interpreting them.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use headrace_wire::CommandCode;
use headrace_wire::frame::{RESPONSE_HEADER_BYTES, ResponseHeader};
use headrace_wire::{Command, Malformed};

use crate::ClientError;
use crate::socket::{Socket, Transport, WriteStyle};
use crate::tls::Target;

/// Size of the receive buffer: several pipelined answers, or one answer to a query.
const INBOX_BYTES: usize = 8 * 1024;
const PAGE_BYTES: usize = 4096;
/// Maximum number of bytes kept of a server's explanation of a refusal.
const EXPLANATION_BYTES_MAX: usize = 1024;
/// Offset in a page at which an answer begins.
///
/// The kernel's copy is several times slower if the target's offset in its page is 1 to 15 bytes beyond the source's
/// (measured on an AMD EPYC whose kernel copies with string instructions: 0.32 instead of 0.07 CPU s/GB). The sender's
/// kernel begins an answer at the start of a page. Received at the start of a large allocation, which is 16 bytes into
/// a page, without its 8-byte header, it would hit exactly that case. This offset avoids it, with and without the
/// header.
const FRAME_PAGE_OFFSET_BYTES: usize = 64;
/// Maximum socket timeout.
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// Options of a connection.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// Transport of the frames.
    pub transport: Transport,
    /// Send small segments at once (`TCP_NODELAY`).
    pub no_delay: bool,
    /// Timeout for connecting; `None`: the system's timeout.
    pub connect_timeout: Option<Duration>,
    /// Timeout for an answer; `None`: none.
    pub response_timeout: Option<Duration>,
    /// Number of writes for a frame.
    pub write_style: WriteStyle,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            transport: Transport::Tcp,
            no_delay: true,
            connect_timeout: Some(Duration::from_secs(10)),
            response_timeout: None,
            write_style: WriteStyle::Vectored,
        }
    }
}

/// A reusable buffer for an answer.
#[derive(Debug, Default)]
pub struct ResponseBuffer {
    /// Storage, initialised over its whole length.
    bytes: Vec<u8>,
    /// Start of the frame: [`FRAME_PAGE_OFFSET_BYTES`] into a page.
    frame_start: usize,
    /// Size of the payload.
    length: usize,
}

impl ResponseBuffer {
    /// Create a buffer that holds payloads of `bytes` without growing.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut buffer = Self::default();
        buffer.reserve_frame(RESPONSE_HEADER_BYTES + bytes, 0);
        buffer
    }

    /// Payload of the last answer.
    pub fn payload(&self) -> &[u8] {
        let start = self.frame_start + RESPONSE_HEADER_BYTES;
        self.bytes.get(start..start + self.length).unwrap_or(&[])
    }

    fn frame(&mut self) -> &mut [u8] {
        &mut self.bytes[self.frame_start..]
    }

    /// Make room for a frame of `bytes`, of which `filled` have been received.
    fn reserve_frame(&mut self, bytes: usize, filled: usize) {
        if self.bytes.len() - self.frame_start >= bytes {
            return;
        }
        let slack = PAGE_BYTES + FRAME_PAGE_OFFSET_BYTES;
        let mut grown = vec![0; bytes.next_power_of_two() + slack];
        // The frame's position only affects performance: any start that leaves enough room is correct.
        let page_start = grown.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        let start = page_start + FRAME_PAGE_OFFSET_BYTES;
        grown[start..start + filled].copy_from_slice(&self.frame()[..filled]);
        self.bytes = grown;
        self.frame_start = start;
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Link {
    socket: Socket,
    write_style: WriteStyle,
    response_timeout: Option<Duration>,
    request: Vec<u8>,
    inbox: Box<[u8; INBOX_BYTES]>,
    inbox_start: usize,
    inbox_end: usize,
    broken: bool,
}

impl Link {
    pub(crate) fn connect(address: &str, options: &ConnectOptions) -> Result<Self, ClientError> {
        let Target { address, tls } = &Target::parse(address)?;
        let connect = || {
            let stream = open(address, options.connect_timeout)?;
            stream.set_nodelay(options.no_delay)?;
            // The WebSocket and TLS handshakes count as part of connecting.
            stream.set_read_timeout(options.connect_timeout)?;
            stream.set_write_timeout(options.connect_timeout)?;
            Socket::open(stream, options.transport, address, tls.as_ref())
        };
        let socket = connect().map_err(|source| ClientError::Connect {
            address: address.to_owned(),
            source,
        })?;
        socket
            .stream()
            .set_read_timeout(options.response_timeout)
            .and_then(|()| socket.stream().set_write_timeout(options.response_timeout))
            .map_err(|source| ClientError::System {
                action: "set the options of a socket",
                source,
            })?;
        Ok(Self {
            socket,
            write_style: options.write_style,
            response_timeout: options.response_timeout,
            request: Vec::with_capacity(1024),
            inbox: Box::new([0; INBOX_BYTES]),
            inbox_start: 0,
            inbox_end: 0,
            broken: false,
        })
    }

    /// Duplicate the socket's handle, for ending a wait from another thread.
    pub(crate) fn try_clone_socket(&self) -> io::Result<TcpStream> {
        self.socket.stream().try_clone()
    }

    /// Timeout for an answer.
    pub(crate) fn response_timeout(&self) -> Option<Duration> {
        self.response_timeout
    }

    /// Mark the connection as unusable: the late answer may still arrive. Returns the error.
    pub(crate) fn time_out(&mut self, command: CommandCode, timeout: Duration) -> ClientError {
        self.broken = true;
        ClientError::Timeout { command, timeout }
    }

    /// Return whether data arrives within `timeout`.
    pub(crate) fn has_answer(
        &mut self,
        command: CommandCode,
        timeout: Duration,
    ) -> Result<bool, ClientError> {
        if self.inbox_start < self.inbox_end {
            return Ok(true);
        }
        if self.broken {
            return Err(ClientError::Disconnected);
        }
        // A zero timeout would mean for ever.
        let timeout = timeout.clamp(Duration::from_micros(1), TIMEOUT_MAX);
        self.set_timeout(Some(timeout))?;
        self.inbox_start = 0;
        self.inbox_end = 0;
        let result = self.socket.read(&mut self.inbox[..]);
        self.set_timeout(self.response_timeout)?;
        match result {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                Ok(false)
            }
            result => {
                self.inbox_end = self.check_read(command, result)?;
                Ok(self.inbox_end > 0)
            }
        }
    }

    fn set_timeout(&self, timeout: Option<Duration>) -> Result<(), ClientError> {
        self.socket
            .stream()
            .set_read_timeout(timeout)
            .map_err(|source| ClientError::System {
                action: "set the options of a socket",
                source,
            })
    }

    /// Encode and write a request that is small enough to be encoded as a whole.
    pub(crate) fn send_command(&mut self, command: &Command<'_>) -> Result<(), ClientError> {
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        let result = command
            .try_encode_frame(&mut request)
            .map_err(|status| ClientError::Unrepresentable {
                command: command.code(),
                status,
            })
            .and_then(|()| self.send_parts(command.code(), [&request, &[], &[]]));
        self.request = request;
        result
    }

    /// Write an encoded frame; the first part holds at least the frame's header.
    pub(crate) fn send_parts(
        &mut self,
        command: CommandCode,
        parts: [&[u8]; 3],
    ) -> Result<(), ClientError> {
        if self.broken {
            return Err(ClientError::Disconnected);
        }
        self.socket
            .write(parts, self.write_style)
            .map_err(|source| self.fail(command, source))
    }

    /// Read an answer if no other is outstanding.
    ///
    /// Header and payload are read with one system call if they arrive together, and the payload is not copied. If
    /// several answers are outstanding use [`Self::receive_empty`].
    pub(crate) fn receive(
        &mut self,
        command: CommandCode,
        buffer: &mut ResponseBuffer,
    ) -> Result<(), ClientError> {
        buffer.length = 0;
        buffer.reserve_frame(INBOX_BYTES, 0);
        let waiting = self.inbox_start..self.inbox_end;
        let mut filled = waiting.len();
        buffer.frame()[..filled].copy_from_slice(&self.inbox[waiting]);
        self.inbox_start = 0;
        self.inbox_end = 0;
        let header = loop {
            if let Some(header) = buffer.frame()[..filled].first_chunk() {
                break ResponseHeader::parse(header);
            }
            let result = self.socket.read(&mut buffer.frame()[filled..]);
            filled += self.check_read(command, result)?;
        };
        let length = self.check_length(command, header)?;
        let end = RESPONSE_HEADER_BYTES + length;
        buffer.reserve_frame(end, filled);
        while filled < end {
            let result = self.socket.read(&mut buffer.frame()[filled..end]);
            filled += self.check_read(command, result)?;
        }
        // A server that shuts down sends one unsolicited frame; it counts as the answer to the next request.
        self.put_back(command, &buffer.frame()[end..filled])?;
        buffer.length = length;
        check_status(command, header, buffer.payload())
    }

    /// Read one answer while any number may be outstanding.
    pub(crate) fn receive_one(
        &mut self,
        command: CommandCode,
        buffer: &mut ResponseBuffer,
    ) -> Result<(), ClientError> {
        buffer.length = 0;
        while self.inbox_end - self.inbox_start < RESPONSE_HEADER_BYTES {
            self.fill_inbox(command)?;
        }
        let header = self.inbox[self.inbox_start..]
            .first_chunk()
            .map(ResponseHeader::parse)
            .expect("waited for");
        self.inbox_start += RESPONSE_HEADER_BYTES;
        let length = self.check_length(command, header)?;
        buffer.reserve_frame(RESPONSE_HEADER_BYTES + length, 0);
        let mut filled = length.min(self.inbox_end - self.inbox_start);
        let payload = &mut buffer.frame()[RESPONSE_HEADER_BYTES..RESPONSE_HEADER_BYTES + length];
        let waiting = self.inbox_start..self.inbox_start + filled;
        payload[..filled].copy_from_slice(&self.inbox[waiting]);
        self.inbox_start += filled;
        while filled < length {
            let result = self.socket.read(&mut payload[filled..]);
            filled += self.check_read(command, result)?;
        }
        buffer.length = length;
        check_status(command, header, buffer.payload())
    }

    /// Read an answer without a payload while any number may be outstanding. A payload is discarded.
    pub(crate) fn receive_empty(&mut self, command: CommandCode) -> Result<(), ClientError> {
        while self.inbox_end - self.inbox_start < RESPONSE_HEADER_BYTES {
            self.fill_inbox(command)?;
        }
        let header = self.inbox[self.inbox_start..]
            .first_chunk()
            .map(ResponseHeader::parse)
            .expect("waited for");
        self.inbox_start += RESPONSE_HEADER_BYTES;
        let mut left = self.check_length(command, header)?;
        let mut explanation = Vec::new();
        while left > 0 {
            if self.inbox_start == self.inbox_end {
                self.fill_inbox(command)?;
            }
            let taken = left.min(self.inbox_end - self.inbox_start);
            let kept = taken.min(EXPLANATION_BYTES_MAX - explanation.len());
            explanation.extend_from_slice(&self.inbox[self.inbox_start..][..kept]);
            self.inbox_start += taken;
            left -= taken;
        }
        check_status(command, header, &explanation)
    }

    fn fill_inbox(&mut self, command: CommandCode) -> Result<(), ClientError> {
        self.inbox.copy_within(self.inbox_start..self.inbox_end, 0);
        self.inbox_end -= self.inbox_start;
        self.inbox_start = 0;
        let result = self.socket.read(&mut self.inbox[self.inbox_end..]);
        self.inbox_end += self.check_read(command, result)?;
        Ok(())
    }

    fn put_back(&mut self, command: CommandCode, surplus: &[u8]) -> Result<(), ClientError> {
        if surplus.is_empty() {
            return Ok(());
        }
        if surplus.len() > INBOX_BYTES {
            self.broken = true;
            return Err(ClientError::Malformed {
                command,
                source: Malformed::TrailingBytes,
            });
        }
        self.inbox[..surplus.len()].copy_from_slice(surplus);
        self.inbox_start = 0;
        self.inbox_end = surplus.len();
        Ok(())
    }

    fn check_length(
        &mut self,
        command: CommandCode,
        header: ResponseHeader,
    ) -> Result<usize, ClientError> {
        if !header.status.is_ok() && header.length as usize > EXPLANATION_BYTES_MAX {
            // No explanation is that long: the following bytes are not at a frame boundary that can be trusted.
            self.broken = true;
            return Err(ClientError::Malformed {
                command,
                source: Malformed::TrailingBytes,
            });
        }
        Ok(header.length as usize)
    }

    /// Number of bytes read; an interruption counts as 0.
    fn check_read(
        &mut self,
        command: CommandCode,
        result: io::Result<usize>,
    ) -> Result<usize, ClientError> {
        match result {
            Ok(0) => {
                self.broken = true;
                Err(ClientError::Disconnected)
            }
            Ok(count) => Ok(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(source) => Err(self.fail(command, source)),
        }
    }

    fn fail(&mut self, command: CommandCode, source: io::Error) -> ClientError {
        self.broken = true;
        match (source.kind(), self.response_timeout) {
            (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, Some(timeout)) => {
                ClientError::Timeout { command, timeout }
            }
            _ => ClientError::Connection { command, source },
        }
    }
}

fn check_status(
    command: CommandCode,
    header: ResponseHeader,
    payload: &[u8],
) -> Result<(), ClientError> {
    if header.status.is_ok() {
        return Ok(());
    }
    let text = &payload[..payload.len().min(EXPLANATION_BYTES_MAX)];
    Err(ClientError::Refused {
        command,
        status: header.status,
        explanation: (!text.is_empty()).then(|| String::from_utf8_lossy(text).into()),
    })
}

/// Connect to the first reachable address of a name.
fn open(address: &str, timeout: Option<Duration>) -> io::Result<TcpStream> {
    let Some(timeout) = timeout else {
        return TcpStream::connect(address);
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&candidate, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
