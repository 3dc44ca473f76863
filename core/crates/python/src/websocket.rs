//! Receiving end of the WebSocket of a server.

use headrace_websocket::{Decoder, Item, Limits, Opcode, ProtocolError, Role, Step};
use pyo3::{create_exception, prelude::*, types::PyBytes};

use crate::errors::CoreError;

create_exception!(
    headrace_core,
    WebSocketError,
    CoreError,
    "The client violates the WebSocket protocol, or a limit: `code` is that with which to close the connection."
);

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("WebSocketError", module.py().get_type::<WebSocketError>())?;
    module.add_class::<WebSocketDecoder>()
}

fn error(violation: ProtocolError) -> PyErr {
    let raised = WebSocketError::new_err(violation.to_string());
    let code = violation.close_code().0;
    Python::attach(|python| raised.value(python).setattr("code", code))
        .map_or_else(|failure| failure, |()| raised)
}

fn limits(message_bytes_max: u64) -> Limits {
    Limits {
        frame_bytes_max: message_bytes_max,
        message_bytes_max,
    }
}

/// Opcode, payload, and whether the payload is compressed.
type Frame<'py> = (u8, Bound<'py, PyBytes>, bool);

/// Decoder with the bytes that it has not consumed.
#[pyclass(module = "headrace_core")]
pub(crate) struct WebSocketDecoder {
    decoder: Decoder,
    received: Vec<u8>,
    consumed: usize,
    /// Payload of the current message so far.
    message: Vec<u8>,
}

#[pymethods]
impl WebSocketDecoder {
    #[new]
    #[pyo3(signature = (*, message_bytes_max, is_compressed = false))]
    fn new(message_bytes_max: u64, is_compressed: bool) -> Self {
        let decoder = Decoder::new(Role::Server, limits(message_bytes_max));
        Self {
            decoder: if is_compressed {
                decoder.with_compression()
            } else {
                decoder
            },
            received: Vec::new(),
            consumed: 0,
            message: Vec::new(),
        }
    }

    /// Change the maximum size of a message, from the next frame on.
    fn limit_messages(&mut self, message_bytes_max: u64) {
        self.decoder.set_limits(limits(message_bytes_max));
    }

    /// Add received bytes.
    fn feed(&mut self, data: &[u8]) {
        self.received.extend_from_slice(data);
    }

    /// Return the next frame: its opcode, its payload, and whether it is compressed; None if bytes are missing.
    ///
    /// The last frame of a message has the opcode and the whole payload of the message, earlier ones are empty
    /// continuations (0). The text of a message is valid UTF-8 unless it is compressed. A close frame has its code as
    /// payload, and a pong has none.
    fn next<'py>(&mut self, python: Python<'py>) -> PyResult<Option<Frame<'py>>> {
        loop {
            let bytes = &mut self.received[self.consumed..];
            let Step::Item { item, consumed } = self.decoder.next(bytes).map_err(error)? else {
                self.received.drain(..self.consumed);
                self.consumed = 0;
                return Ok(None);
            };
            self.consumed += consumed;
            let frame = |opcode: Opcode, payload: &[u8], is_compressed| {
                let payload = PyBytes::new(python, payload);
                Ok(Some((opcode as u8, payload, is_compressed)))
            };
            match item {
                Item::Data {
                    kind,
                    payload,
                    ends_message,
                    is_compressed,
                } => {
                    self.message.extend_from_slice(&bytes[payload]);
                    if ends_message {
                        let message = std::mem::take(&mut self.message);
                        return frame(kind.into(), &message, is_compressed);
                    }
                    if !self.decoder.is_inside_frame() {
                        return frame(Opcode::Continuation, b"", is_compressed);
                    }
                }
                Item::Ping { payload } => return frame(Opcode::Ping, &bytes[payload], false),
                Item::Pong => return frame(Opcode::Pong, b"", false),
                Item::Close { code } => {
                    let code = code.map(|code| code.0.to_be_bytes());
                    return frame(Opcode::Close, code.as_ref().map_or(&[], |code| code), false);
                }
            }
        }
    }
}
