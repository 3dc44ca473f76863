//! Permission records, one bit per right.
//!
//! With bits, a predicate is one mask: "any of these rights" is a single `and`. The same rights are one byte each in
//! the binary protocol and one field each in the catalog's records. The conversions are generated from the tables of
//! rights in `headrace_wire`.

use std::collections::BTreeMap;

use headrace_model::{StreamId, TopicId};
use headrace_proto::catalog::v1;
use headrace_wire::permissions as wire;

macro_rules! rights {
    ($(#[$doc:meta])* $name:ident($word:ty), $record:path, $wire:path;
        { $($(#[$flag_doc:meta])* $field:ident $flag:ident = $bit:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name($word);

        impl $name {
            /// Empty set of rights.
            pub const NONE: Self = Self(0);
            $($(#[$flag_doc])* pub const $flag: Self = Self(1 << $bit);)+

            /// Union of both sets.
            #[must_use]
            pub const fn or(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Return whether the sets have a right in common.
            pub const fn has_any(self, of: Self) -> bool {
                self.0 & of.0 != 0
            }

            #[allow(clippy::needless_update, reason = "one of the three kinds of records has nothing but rights")]
            fn to_record(self) -> $record {
                $record { $($field: self.has_any(Self::$flag),)+ ..Default::default() }
            }
        }

        impl From<&$record> for $name {
            fn from(record: &$record) -> Self {
                let mut rights = Self::NONE;
                $(if record.$field {
                    rights = rights.or(Self::$flag);
                })+
                rights
            }
        }

        impl From<$wire> for $name {
            fn from(record: $wire) -> Self {
                let mut rights = Self::NONE;
                $(if record.$field {
                    rights = rights.or(Self::$flag);
                })+
                rights
            }
        }

        impl From<$name> for $wire {
            fn from(rights: $name) -> Self {
                Self { $($field: rights.has_any($name::$flag),)+ }
            }
        }
    };
}

headrace_wire::global_rights! { rights
    /// Rights on the whole server.
    GlobalRights(u16), v1::GlobalPermissions, wire::GlobalPermissions;
}

headrace_wire::stream_rights! { rights
    /// Rights on one stream and everything in it.
    StreamRights(u8), v1::StreamPermissions, wire::StreamRights;
}

headrace_wire::topic_rights! { rights
    /// Rights on one topic.
    TopicRights(u8), v1::TopicPermissions, wire::TopicPermissions;
}

/// Permissions of a user. Streams and topics are named by id and need not exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    /// Rights on the whole server.
    pub global: GlobalRights,
    /// Permissions in single streams.
    pub streams: BTreeMap<StreamId, StreamPermissions>,
}

/// Permissions of a user in one stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamPermissions {
    /// Rights on the whole stream.
    pub rights: StreamRights,
    /// Rights on single topics.
    pub topics: BTreeMap<TopicId, TopicRights>,
}

impl Permissions {
    /// Encode as a record of the catalog, ascending by id.
    pub fn to_record(&self) -> v1::Permissions {
        v1::Permissions {
            global: Some(self.global.to_record()),
            streams: self
                .streams
                .iter()
                .map(|(id, stream)| v1::StreamPermissions {
                    stream_id: id.0,
                    topics: stream
                        .topics
                        .iter()
                        .map(|(id, rights)| v1::TopicPermissions {
                            topic_id: id.0,
                            ..rights.to_record()
                        })
                        .collect(),
                    ..stream.rights.to_record()
                })
                .collect(),
        }
    }
}

impl From<&v1::Permissions> for Permissions {
    /// Decode a record. A stream or topic that is listed twice gets its last entry.
    fn from(record: &v1::Permissions) -> Self {
        Self {
            global: record
                .global
                .as_ref()
                .map_or(GlobalRights::NONE, GlobalRights::from),
            streams: record
                .streams
                .iter()
                .map(|stream| {
                    let topics = stream
                        .topics
                        .iter()
                        .map(|topic| (TopicId(topic.topic_id), TopicRights::from(topic)));
                    let permissions = StreamPermissions {
                        rights: StreamRights::from(stream),
                        topics: topics.collect(),
                    };
                    (StreamId(stream.stream_id), permissions)
                })
                .collect(),
        }
    }
}

impl From<&wire::Permissions> for Permissions {
    fn from(record: &wire::Permissions) -> Self {
        Self {
            global: record.global.into(),
            streams: record
                .streams
                .iter()
                .map(|(&id, stream)| {
                    let topics = stream
                        .topics
                        .iter()
                        .map(|(&id, &topic)| (TopicId(id), topic.into()));
                    let permissions = StreamPermissions {
                        rights: stream.rights.into(),
                        topics: topics.collect(),
                    };
                    (StreamId(id), permissions)
                })
                .collect(),
        }
    }
}

impl From<&Permissions> for wire::Permissions {
    fn from(permissions: &Permissions) -> Self {
        Self {
            global: permissions.global.into(),
            streams: permissions
                .streams
                .iter()
                .map(|(id, stream)| {
                    let topics = stream
                        .topics
                        .iter()
                        .map(|(id, &rights)| (id.0, rights.into()));
                    let record = wire::StreamPermissions {
                        rights: stream.rights.into(),
                        topics: topics.collect(),
                    };
                    (id.0, record)
                })
                .collect(),
        }
    }
}
