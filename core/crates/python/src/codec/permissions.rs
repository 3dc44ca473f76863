//! Permissions of users, as records that Python can construct.

use std::collections::BTreeMap;

use headrace_wire::permissions as wire;
use pyo3::prelude::*;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<GlobalPermissions>()?;
    module.add_class::<TopicPermissions>()?;
    module.add_class::<StreamPermissions>()?;
    module.add_class::<Permissions>()
}

/// Permissions that consist of flags only.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident { $($flag:ident),+ })+) => {
        $(
            $(#[$doc])*
            #[pyclass(frozen, from_py_object, eq, get_all, module = "headrace_core")]
            #[derive(Clone, Copy, PartialEq, Eq)]
            #[allow(clippy::struct_excessive_bools, reason = "independent rights")]
            pub(super) struct $name {
                $($flag: bool),+
            }

            #[pymethods]
            #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools, reason = "independent rights")]
            impl $name {
                #[new]
                #[pyo3(signature = (*, $($flag = false),+))]
                fn new($($flag: bool),+) -> Self {
                    Self { $($flag),+ }
                }
            }

            impl From<wire::$name> for $name {
                fn from(rights: wire::$name) -> Self {
                    Self { $($flag: rights.$flag),+ }
                }
            }

            impl From<$name> for wire::$name {
                fn from(rights: $name) -> Self {
                    Self { $($flag: rights.$flag),+ }
                }
            }
        )+
    };
}

flags! {
    /// Global permissions.
    GlobalPermissions {
        manage_servers, read_servers, manage_users, read_users, manage_streams, read_streams, manage_topics,
        read_topics, poll_messages, send_messages
    }

    /// Permissions on one topic.
    TopicPermissions { manage_topic, read_topic, poll_messages, send_messages }
}

/// Permissions on one stream and on its topics.
#[pyclass(frozen, from_py_object, eq, get_all, module = "headrace_core")]
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent rights")]
pub(super) struct StreamPermissions {
    manage_stream: bool,
    read_stream: bool,
    manage_topics: bool,
    read_topics: bool,
    poll_messages: bool,
    send_messages: bool,
    topics: BTreeMap<u32, TopicPermissions>,
}

#[pymethods]
#[expect(clippy::fn_params_excessive_bools, reason = "independent rights")]
impl StreamPermissions {
    #[new]
    #[pyo3(signature = (
        *, manage_stream = false, read_stream = false, manage_topics = false, read_topics = false,
        poll_messages = false, send_messages = false, topics = None
    ))]
    fn new(
        manage_stream: bool,
        read_stream: bool,
        manage_topics: bool,
        read_topics: bool,
        poll_messages: bool,
        send_messages: bool,
        topics: Option<BTreeMap<u32, TopicPermissions>>,
    ) -> Self {
        Self {
            manage_stream,
            read_stream,
            manage_topics,
            read_topics,
            poll_messages,
            send_messages,
            topics: topics.unwrap_or_default(),
        }
    }
}

/// All permissions of a user.
#[pyclass(frozen, eq, get_all, module = "headrace_core")]
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Permissions {
    everywhere: GlobalPermissions,
    streams: BTreeMap<u32, StreamPermissions>,
}

#[pymethods]
impl Permissions {
    #[new]
    #[pyo3(signature = (*, everywhere, streams = None))]
    fn new(
        everywhere: GlobalPermissions,
        streams: Option<BTreeMap<u32, StreamPermissions>>,
    ) -> Self {
        Self {
            everywhere,
            streams: streams.unwrap_or_default(),
        }
    }
}

impl Permissions {
    pub(super) fn to_wire(&self) -> wire::Permissions {
        let stream = |stream: &StreamPermissions| wire::StreamPermissions {
            rights: wire::StreamRights {
                manage_stream: stream.manage_stream,
                read_stream: stream.read_stream,
                manage_topics: stream.manage_topics,
                read_topics: stream.read_topics,
                poll_messages: stream.poll_messages,
                send_messages: stream.send_messages,
            },
            topics: stream
                .topics
                .iter()
                .map(|(&id, &topic)| (id, topic.into()))
                .collect(),
        };
        wire::Permissions {
            global: self.everywhere.into(),
            streams: self
                .streams
                .iter()
                .map(|(&id, rights)| (id, stream(rights)))
                .collect(),
        }
    }
}

impl From<wire::Permissions> for Permissions {
    fn from(permissions: wire::Permissions) -> Self {
        let stream = |stream: wire::StreamPermissions| StreamPermissions {
            manage_stream: stream.rights.manage_stream,
            read_stream: stream.rights.read_stream,
            manage_topics: stream.rights.manage_topics,
            read_topics: stream.rights.read_topics,
            poll_messages: stream.rights.poll_messages,
            send_messages: stream.rights.send_messages,
            topics: stream
                .topics
                .into_iter()
                .map(|(id, topic)| (id, topic.into()))
                .collect(),
        };
        Self {
            everywhere: permissions.global.into(),
            streams: permissions
                .streams
                .into_iter()
                .map(|(id, rights)| (id, stream(rights)))
                .collect(),
        }
    }
}
