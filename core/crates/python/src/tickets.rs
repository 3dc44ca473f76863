//! Signing and verification of tickets.

use headrace_model::{Namespace, PartitionId, StreamId, TopicId, UserId};
use headrace_ticket::{self as tickets, Access, Issuer, Key, Scope};
use pyo3::{create_exception, exceptions::PyValueError, prelude::*};

use crate::{errors::CoreError, readable::readable};

create_exception!(
    headrace_core,
    TicketError,
    CoreError,
    "A text is not a valid ticket of this cluster."
);

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("TicketError", module.py().get_type::<TicketError>())?;
    module.add_class::<TicketKey>()?;
    module.add_class::<Ticket>()
}

readable!(Ticket: holder, stream_id, topic_id, partition_id, read, write, not_after);

/// Contents of a ticket.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct Ticket {
    /// Name of the client that it was issued to.
    holder: String,
    /// Stream that it grants access to; None: the whole cluster.
    stream_id: Option<u32>,
    /// Topic that it grants access to; None: the whole cluster.
    topic_id: Option<u32>,
    /// Partition that it grants access to; None: the whole topic, or the whole cluster.
    partition_id: Option<u32>,
    /// Incarnation of the topic or of the partition; 0 for the cluster.
    incarnation: u64,
    /// True if messages and offsets may be read, and offsets stored.
    read: bool,
    /// True if messages may be appended.
    write: bool,
    /// Last second, since the Unix epoch, in which the ticket is valid.
    not_after: u64,
    /// Random identifier for logs.
    id: u128,
    /// Issuing user, version of the user's password and incarnation of the access token (0: none) of the user's login;
    /// None: issued by a service.
    issuer: Option<(u32, u64, u64)>,
}

impl From<tickets::Ticket> for Ticket {
    fn from(ticket: tickets::Ticket) -> Self {
        let (place, incarnation, access) = match ticket.scope {
            Scope::Cluster => ([None; 3], 0, Access::ALL),
            Scope::Topic {
                stream,
                topic,
                incarnation,
                access,
            } => ([Some(stream.0), Some(topic.0), None], incarnation, access),
            Scope::Partition {
                namespace,
                incarnation,
                access,
            } => {
                let ids = [
                    namespace.stream().0,
                    namespace.topic().0,
                    namespace.partition().0,
                ];
                (ids.map(Some), incarnation, access)
            }
        };
        Self {
            holder: ticket.holder,
            stream_id: place[0],
            topic_id: place[1],
            partition_id: place[2],
            incarnation,
            read: access.read,
            write: access.write,
            not_after: ticket.not_after,
            id: ticket.id,
            issuer: (ticket.issuer)
                .map(|issuer| (issuer.user.0, issuer.password_version, issuer.token)),
        }
    }
}

/// Signs and verifies the tickets of one cluster.
#[pyclass(frozen, module = "headrace_core")]
pub(crate) struct TicketKey(Key);

#[pymethods]
impl TicketKey {
    #[new]
    #[pyo3(signature = (secret, cluster, *, accepted_secret=""))]
    fn new(secret: &str, cluster: &str, accepted_secret: &str) -> Self {
        let key = Key::derive(secret.as_bytes(), cluster);
        if accepted_secret.is_empty() {
            return Self(key);
        }
        Self(key.accepting(accepted_secret.as_bytes(), cluster))
    }

    /// Sign a ticket for the cluster, for a topic (stream and topic), or for a partition (all three).
    #[pyo3(signature = (holder, *, not_after, stream_id=None, topic_id=None, partition_id=None, incarnation=0, read=false, write=false, issuer=None))]
    #[allow(clippy::too_many_arguments, reason = "they are named in Python")]
    fn sign(
        &self,
        holder: String,
        not_after: u64,
        stream_id: Option<u32>,
        topic_id: Option<u32>,
        partition_id: Option<u32>,
        incarnation: u64,
        read: bool,
        write: bool,
        issuer: Option<(u32, u64, u64)>,
    ) -> PyResult<String> {
        let access = Access { read, write };
        let scope = scope([stream_id, topic_id, partition_id], incarnation, access)?;
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| CoreError::new_err(error.to_string()))?;
        let ticket = tickets::Ticket {
            holder,
            scope,
            not_after,
            id: u128::from_le_bytes(id),
            issuer: issuer.map(|(user, password_version, token)| Issuer {
                user: UserId(user),
                password_version,
                token,
            }),
        };
        let text = ticket.sign(&self.0);
        text.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Verify a ticket at the time `now`, in seconds since the Unix epoch, and return its contents.
    #[pyo3(signature = (ticket, *, now))]
    fn verify(&self, ticket: &str, now: u64) -> PyResult<Ticket> {
        let ticket = tickets::Ticket::verify(ticket, &self.0, now);
        ticket
            .map(Ticket::from)
            .map_err(|error| TicketError::new_err(error.to_string()))
    }
}

fn scope(ids: [Option<u32>; 3], incarnation: u64, access: Access) -> PyResult<Scope> {
    let (stream, topic, partition) = match ids {
        [None, None, None] => return Ok(Scope::Cluster),
        [Some(stream), Some(topic), partition] => (StreamId(stream), TopicId(topic), partition),
        _ => {
            return Err(PyValueError::new_err(
                "a ticket is for the cluster, for a topic of a stream, or for a partition of those",
            ));
        }
    };
    let namespace = Namespace::new(stream, topic, PartitionId(partition.unwrap_or(0)))
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(match partition {
        None => Scope::Topic {
            stream,
            topic,
            incarnation,
            access,
        },
        Some(_) => Scope::Partition {
            namespace,
            incarnation,
            access,
        },
    })
}
