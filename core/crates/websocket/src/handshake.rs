//! HTTP/1.1 upgrade at the start of a connection.

use base64::{Engine, prelude::BASE64_STANDARD};
use sha1::{Digest, Sha1};

/// GUID with which the server proves that it handled the key as a WebSocket key. Source: RFC 6455, section 1.3.
const ACCEPT_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Maximum number of header fields of a request or a response.
const FIELDS_MAX: usize = 64;
/// Bytes of a client's key.
const KEY_BYTES: usize = 16;

/// A parsed upgrade request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// Value of `Sec-WebSocket-Accept` for the response.
    pub accept: String,
    /// Number of bytes of the request.
    pub consumed: usize,
}

/// Pages whose scripts may connect. A browser names the origin of the page; other programs name none, and may connect.
///
/// The same-origin policy of browsers does not cover WebSocket: without this check any page could use the server of its
/// visitor's machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origins {
    any: bool,
    allowed: Vec<String>,
}

impl Origins {
    /// Allow these origins, such as `https://shop.example`; any, if the first is `*`.
    pub fn new(allowed: &[String]) -> Self {
        Self {
            any: allowed.first().is_some_and(|first| first == "*"),
            allowed: (allowed.iter())
                .map(|origin| origin.trim_end_matches('/').to_owned())
                .collect(),
        }
    }

    fn allow<'a>(&self, mut named: impl Iterator<Item = &'a [u8]>) -> bool {
        let Some(origin) = named.next() else {
            return true;
        };
        let is_allowed =
            |allowed: &String| origin.trim_ascii().eq_ignore_ascii_case(allowed.as_bytes());
        self.any || (named.next().is_none() && self.allowed.iter().any(is_allowed))
    }
}

/// Reason why an upgrade is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The received bytes are not an HTTP request.
    #[error("this is not an HTTP request")]
    NotHttp,
    /// The HTTP version is below 1.1.
    #[error("an upgrade needs HTTP/1.1")]
    OldHttp,
    /// The method is not GET.
    #[error("the method must be GET")]
    NotGet,
    /// The request does not ask for an upgrade.
    #[error("this port accepts only WebSocket: the request must ask for an upgrade")]
    NotUpgrade,
    /// The WebSocket version is not 13.
    #[error("the version of the WebSocket protocol must be 13")]
    Version,
    /// The key is missing or does not have 16 bytes.
    #[error("the header Sec-WebSocket-Key is missing or is not a key")]
    Key,
    /// A browser asks for a page that may not connect.
    #[error("pages of this origin may not connect: see websocket.allowed_origins")]
    Origin,
    /// The request announces a body.
    #[error("a request for an upgrade has no body")]
    Body,
    /// The request exceeds the limit of the server.
    #[error("the header of the request is too large")]
    TooLarge,
    /// The request did not arrive in time.
    #[error("the request did not arrive in time")]
    TooSlow,
    /// The server shuts down and accepts no more connections.
    #[error("the server stops")]
    Stopping,
}

impl Refused {
    fn status(self) -> &'static str {
        match self {
            Self::NotHttp | Self::Key | Self::Body => "400 Bad Request",
            Self::Origin => "403 Forbidden",
            Self::OldHttp => "505 HTTP Version Not Supported",
            Self::NotGet => "405 Method Not Allowed",
            Self::NotUpgrade | Self::Version => "426 Upgrade Required",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::TooSlow => "408 Request Timeout",
            Self::Stopping => "503 Service Unavailable",
        }
    }

    /// Additional header fields for the status.
    fn fields(self) -> &'static str {
        match self {
            Self::NotGet => "Allow: GET\r\n",
            Self::NotUpgrade | Self::Version => {
                "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            }
            _ => "",
        }
    }
}

/// Read a request at the front of `bytes`. `None` if it is incomplete. Any path and host are accepted. Offered
/// sub-protocols and extensions are not accepted; the client infers this from their absence in the response.
///
/// # Errors
/// The request is not a valid upgrade request.
pub fn read_request(bytes: &[u8], origins: &Origins) -> Result<Option<Upgrade>, Refused> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let consumed = match request.parse(bytes) {
        Ok(httparse::Status::Complete(consumed)) => consumed,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Refused::TooLarge),
        Err(httparse::Error::Version) => return Err(Refused::OldHttp),
        Err(_) => return Err(Refused::NotHttp),
    };
    if request.version != Some(1) {
        return Err(Refused::OldHttp);
    }
    if request.method != Some("GET") {
        return Err(Refused::NotGet);
    }
    let fields = Fields(request.headers);
    if !fields.has_token("connection", "upgrade") || !fields.has_token("upgrade", "websocket") {
        return Err(Refused::NotUpgrade);
    }
    if fields.only("sec-websocket-version") != Some(b"13") {
        return Err(Refused::Version);
    }
    let has_body = fields
        .all("content-length")
        .any(|length| length.trim_ascii() != b"0");
    if has_body || fields.all("transfer-encoding").next().is_some() {
        return Err(Refused::Body);
    }
    if !origins.allow(fields.all("origin")) {
        return Err(Refused::Origin);
    }
    let key = fields.only("sec-websocket-key").ok_or(Refused::Key)?;
    let mut decoded = [0; KEY_BYTES + 2];
    match BASE64_STANDARD.decode_slice(key, &mut decoded) {
        Ok(KEY_BYTES) => {}
        _ => return Err(Refused::Key),
    }
    Ok(Some(Upgrade {
        accept: accept_key(key),
        consumed,
    }))
}

/// Value of `Sec-WebSocket-Accept` for a client's key.
pub fn accept_key(key: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(key);
    hash.update(ACCEPT_GUID);
    BASE64_STANDARD.encode(hash.finalize())
}

/// Response that completes a successful handshake.
pub fn response(upgrade: &Upgrade) -> Vec<u8> {
    let Upgrade { accept, .. } = upgrade;
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
    .into_bytes()
}

/// Response to a failed handshake; the connection is to be closed after it.
pub fn refusal(refused: Refused) -> Vec<u8> {
    let (status, fields) = (refused.status(), refused.fields());
    let body = format!("{refused}\n");
    let length = body.len();
    let connection = if fields.starts_with("Upgrade") {
        "Upgrade, close"
    } else {
        "close"
    };
    format!(
        "HTTP/1.1 {status}\r\nConnection: {connection}\r\n{fields}Content-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Request of a client. Returns it with the expected `Sec-WebSocket-Accept`. `nonce` must be random.
pub fn request(host: &str, path: &str, nonce: [u8; KEY_BYTES]) -> (Vec<u8>, String) {
    let key = BASE64_STANDARD.encode(nonce);
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    (request.into_bytes(), accept_key(key.as_bytes()))
}

/// Reason why the response of a server is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadResponse {
    /// The received bytes are not an HTTP response.
    #[error("the server does not speak HTTP")]
    NotHttp,
    /// The server refused the upgrade.
    #[error("the server refused the upgrade with status {0}")]
    Status(u16),
    /// The server claims to upgrade without a valid proof.
    #[error("the server did not understand the upgrade")]
    Proof,
}

/// Check the response of a server at the front of `bytes` and return its length. `None` if it is incomplete.
///
/// # Errors
/// The connection is not a WebSocket connection.
pub fn check_response(bytes: &[u8], accept: &str) -> Result<Option<usize>, BadResponse> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let consumed = match response.parse(bytes) {
        Ok(httparse::Status::Complete(consumed)) => consumed,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(BadResponse::NotHttp),
    };
    let code = response.code.unwrap_or_default();
    if code != 101 {
        return Err(BadResponse::Status(code));
    }
    let fields = Fields(response.headers);
    // Refuse extensions and sub-protocols that were not offered.
    let proves = fields.has_token("connection", "upgrade")
        && fields.has_token("upgrade", "websocket")
        && fields.only("sec-websocket-accept") == Some(accept.as_bytes())
        && fields.all("sec-websocket-extensions").next().is_none()
        && fields.all("sec-websocket-protocol").next().is_none();
    if proves {
        Ok(Some(consumed))
    } else {
        Err(BadResponse::Proof)
    }
}

struct Fields<'a, 'b>(&'a [httparse::Header<'b>]);

impl<'b> Fields<'_, 'b> {
    fn all(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.0
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    }

    /// Value of a field that occurs exactly once.
    fn only(&self, name: &str) -> Option<&'b [u8]> {
        let mut values = self.all(name);
        let value = values.next()?.trim_ascii();
        values.next().is_none().then_some(value)
    }

    /// Return whether a list-valued field contains this token.
    fn has_token(&self, name: &str, token: &str) -> bool {
        self.all(name)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .any(|element| element.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
    }
}

#[cfg(test)]
mod tests;
