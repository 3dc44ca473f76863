//! Permissions of users, as records that Python can construct.

use std::collections::BTreeMap;

use headrace_wire::permissions as wire;
use pyo3::prelude::*;

use crate::readable::text;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<GlobalPermissions>()?;
    module.add_class::<TopicPermissions>()?;
    module.add_class::<StreamPermissions>()?;
    module.add_class::<Permissions>()
}

/// Declare a record of flags, with at most one more field.
macro_rules! flags {
    (
        $(#[$doc:meta])* $name:ident of $wire:path, $($(#[$more_doc:meta])* $more:ident: $type:ty)?;
        { $($(#[$flag_doc:meta])* $flag:ident $constant:ident = $number:literal,)+ }
    ) => {
        $(#[$doc])*
        #[pyclass(frozen, from_py_object, eq, get_all, module = "headrace_core")]
        #[derive(Clone, PartialEq, Eq)]
        #[allow(clippy::struct_excessive_bools, reason = "independent rights")]
        pub(super) struct $name {
            $($(#[$flag_doc])* $flag: bool,)+
            $($(#[$more_doc])* $more: $type,)?
        }

        #[pymethods]
        #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools, reason = "independent rights")]
        impl $name {
            #[new]
            #[pyo3(signature = (*, $($flag = false),+ $(, $more = None)?))]
            fn new($($flag: bool,)+ $($more: Option<$type>,)?) -> Self {
                Self { $($flag,)+ $($more: $more.unwrap_or_default(),)? }
            }

            /// The rights that are granted.
            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                let record = slf.get();
                let fields = [
                    $((record.$flag, stringify!($flag)),)+
                    $((!record.$more.is_empty(), stringify!($more)),)?
                ];
                let granted = fields.iter().filter(|(is_granted, _)| *is_granted);
                text(slf.as_any(), &granted.map(|&(_, name)| name).collect::<Vec<_>>())
            }
        }

        impl $name {
            fn of(rights: $wire $(, $more: $type)?) -> Self {
                Self { $($flag: rights.$flag,)+ $($more,)? }
            }

            fn rights(&self) -> $wire {
                $wire { $($flag: self.$flag),+ }
            }
        }
    };
}

headrace_wire::global_rights! { flags
    /// Global permissions.
    GlobalPermissions of wire::GlobalPermissions,;
}

headrace_wire::topic_rights! { flags
    /// Permissions on one topic.
    TopicPermissions of wire::TopicPermissions,;
}

headrace_wire::stream_rights! { flags
    /// Permissions on one stream and on its topics.
    StreamPermissions of wire::StreamRights,
    /// Permissions on individual topics of the stream, by topic id.
    topics: BTreeMap<u32, TopicPermissions>;
}

/// All permissions of a user.
#[pyclass(frozen, eq, get_all, module = "headrace_core")]
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Permissions {
    /// Permissions on the whole server.
    everywhere: GlobalPermissions,
    /// Permissions on individual streams, by stream id.
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

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        text(slf.as_any(), &["everywhere", "streams"])
    }
}

impl Permissions {
    pub(super) fn to_wire(&self) -> wire::Permissions {
        let stream = |stream: &StreamPermissions| wire::StreamPermissions {
            rights: stream.rights(),
            topics: (stream.topics.iter())
                .map(|(&id, topic)| (id, topic.rights()))
                .collect(),
        };
        wire::Permissions {
            global: self.everywhere.rights(),
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
        let stream = |stream: wire::StreamPermissions| {
            let topics = stream.topics.into_iter();
            StreamPermissions::of(
                stream.rights,
                topics
                    .map(|(id, topic)| (id, TopicPermissions::of(topic)))
                    .collect(),
            )
        };
        Self {
            everywhere: GlobalPermissions::of(permissions.global),
            streams: permissions
                .streams
                .into_iter()
                .map(|(id, rights)| (id, stream(rights)))
                .collect(),
        }
    }
}
