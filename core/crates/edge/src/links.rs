//! Connections to partition nodes: opened, encrypted, and handed to the shard that requested them.

use std::{
    convert::Infallible,
    fmt, io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError, mpsc::sync_channel},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use headrace_runtime::{Connector, Events, TcpConnector};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    net::{TcpStream, UnixStream},
    runtime::Handle,
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    certificate::{CertificateProblem, Outgoing, Renewal},
    config::LinkTlsConfig,
    counters::{ListenerCounters, add},
    shards::pair,
    tls::{NodeFailureLog, Reason, relay},
};

/// Name of the links in counters and log lines.
pub(crate) const NAME: &str = "links";

/// Opens connections to partition nodes.
///
/// A shard's worker thread resolves the address and connects, as without encryption. The handshake and the ciphers run
/// on the threads of the encrypted listeners; the shard receives one end of a socket pair.
pub(crate) struct Links(Arc<Shared>);

struct Shared {
    /// Name that the certificate of every node must be valid for, whatever its address is; `None`: the host of the
    /// address.
    server_name: Option<ServerName<'static>>,
    renewal: Renewal<Outgoing>,
    /// Configuration of new connections.
    client: ArcSwap<ClientConfig>,
    threads: Handle,
    /// Cloned into every connection; `None` when no more are to be opened.
    life: Mutex<Option<mpsc::Sender<Infallible>>>,
    counters: ListenerCounters,
    failures: NodeFailureLog,
}

impl Links {
    /// Read the files.
    pub(crate) fn new(
        config: &LinkTlsConfig,
        threads: Handle,
        life: mpsc::Sender<Infallible>,
        events: &Events,
    ) -> Result<Self, CertificateProblem> {
        let server_name = config.server_name.as_deref().map(name).transpose()?;
        let renewal = Renewal::begin(NAME, Outgoing(config.clone()), events.clone())?;
        Ok(Self(Arc::new(Shared {
            server_name,
            client: ArcSwap::new(renewal.in_use().client),
            renewal,
            threads,
            life: Mutex::new(Some(life)),
            counters: ListenerCounters::default(),
            failures: NodeFailureLog::new(events.clone()),
        })))
    }

    /// Check for new files and use them from the next connection on.
    pub(crate) fn renew(&self) {
        if let Some(ready) = self.0.renewal.check() {
            self.0.client.store(ready.client);
        }
    }

    pub(crate) fn counters(&self) -> &ListenerCounters {
        &self.0.counters
    }

    /// Open no more connections.
    pub(crate) fn close(&self) {
        drop(self.0.life().take());
    }
}

impl Connector for Links {
    fn connect(&self, address: &str, limit: Duration) -> io::Result<OwnedFd> {
        let deadline = Instant::now() + limit;
        let shared = &self.0;
        let name = match &shared.server_name {
            Some(name) => name.clone(),
            None => name(host(address)).map_err(io::Error::other)?,
        };
        let Some(life) = shared.life().clone() else {
            return Err(io::Error::other("the process stops"));
        };
        let stream = TcpConnector::open(address, limit)?;
        stream.set_nonblocking(true)?;
        add(&shared.counters.accepted, 1);
        let left = deadline.saturating_duration_since(Instant::now());
        let (sender, receiver) = sync_channel(1);
        let (of_task, node) = (Arc::clone(shared), Arc::<str>::from(address));
        shared.threads.spawn(async move {
            let _life = life;
            match of_task.shake_hands(stream, name, left).await {
                Ok((stream, (ours, theirs))) => {
                    add(&of_task.counters.handshakes, 1);
                    if sender.send(Ok(theirs)).is_ok() {
                        of_task.serve(stream, ours, &node).await;
                    }
                }
                Err(reason) => {
                    of_task.failures.failed(&of_task.counters, &node, &reason);
                    // Fails only if the requester no longer waits.
                    let _ = sender.send(Err(io::Error::other(reason.text)));
                }
            }
        });
        // The task ends at the timeout of its handshake, or with its threads.
        receiver
            .recv()
            .map_err(|_ended| io::Error::other("the process stops"))?
    }
}

impl Shared {
    fn life(&self) -> std::sync::MutexGuard<'_, Option<mpsc::Sender<Infallible>>> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn shake_hands(
        &self,
        stream: std::net::TcpStream,
        name: ServerName<'static>,
        limit: Duration,
    ) -> Result<(TlsStream<TcpStream>, (UnixStream, OwnedFd)), Reason> {
        let connector = TlsConnector::from(self.client.load_full());
        let shaken = async {
            let stream = connector
                .connect(name, TcpStream::from_std(stream)?)
                .await?;
            Ok((stream, pair()?))
        };
        match timeout(limit, shaken).await {
            Ok(shaken) => shaken.map_err(|error| Reason::of_node(&error)),
            Err(_late) => Err(Reason::timeout()),
        }
    }

    async fn serve(&self, stream: TlsStream<TcpStream>, shard: UnixStream, node: &str) {
        let _open = self.counters.opened();
        let error = relay(stream, shard, &self.counters).await;
        // The node's verdict on the client certificate arrives after the handshake is complete on this side.
        let of_tls = error.as_ref().and_then(io::Error::get_ref);
        if let Some(error) = of_tls.and_then(|inner| inner.downcast_ref()) {
            self.failures
                .failed(&self.counters, node, &Reason::of_tls(error));
        }
    }
}

fn name(text: &str) -> Result<ServerName<'static>, CertificateProblem> {
    ServerName::try_from(text.to_owned())
        .map_err(|_no_name| CertificateProblem::Name(text.to_owned()))
}

/// Host of `host:port`; an IPv6 address stands in brackets.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

impl fmt::Debug for Links {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Links")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_to_verify_is_the_host_of_the_address() {
        for (address, expected) in [
            ("node-1:8100", "node-1"),
            ("192.0.2.1:8100", "192.0.2.1"),
            ("[2001:db8::1]:8100", "2001:db8::1"),
        ] {
            assert_eq!(host(address), expected);
            name(host(address)).unwrap();
        }
        assert!(name("not a name").is_err());
    }
}
