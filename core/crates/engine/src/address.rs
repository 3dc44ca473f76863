//! Addresses of servers.

use std::io;
use std::sync::Arc;

use headrace_client::Target;
use tokio_rustls::TlsConnector;

/// Address of a server that was checked.
#[derive(Clone)]
pub struct Address {
    /// Host and port.
    pub(crate) host_port: String,
    pub(crate) tls: Option<Tls>,
    pub(crate) is_websocket: bool,
}

#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) connector: TlsConnector,
    pub(crate) name: rustls_pki_types::ServerName<'static>,
}

/// An address that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(String);

impl Address {
    /// Parse `host:port`, or `tls://host:port?ca=FILE` with the options of the command line.
    ///
    /// Reads the file of authorities.
    pub fn parse(text: &str, is_websocket: bool) -> Result<Self, AddressError> {
        let target = Target::parse(text).map_err(|error| AddressError(error.to_string()))?;
        let tls = target.tls.map(|tls| {
            let connector = TlsConnector::from(Arc::new(tls.config()?));
            let name = tls.server_name()?;
            Ok(Tls { connector, name })
        });
        let tls = tls
            .transpose()
            .map_err(|error: io::Error| AddressError(format!("{text}: {error}")))?;
        Ok(Self {
            host_port: target.address,
            tls,
            is_websocket,
        })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = match (&self.tls, self.is_websocket) {
            (None, false) => "",
            (Some(_), false) => "tls://",
            (None, true) => "ws://",
            (Some(_), true) => "wss://",
        };
        write!(formatter, "{scheme}{}", self.host_port)
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Address({self})")
    }
}
