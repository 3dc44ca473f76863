//! Permissions of a user: the record in `CreateUser`, `UpdatePermissions` and user details.
//!
//! Lists are chained: after each stream and each topic one byte says whether another follows. Encoding goes by
//! ascending id; decoding accepts any order, and the last of two records with one id wins. Ids need not exist.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

// The rights, each with its name, its constant and its number, in the order of the format. All other lists of
// rights in Rust are made of these.

/// Pass the rights on the whole server to the macro `$receiver`, after its other arguments.
#[macro_export]
macro_rules! global_rights {
    ($receiver:ident $($arguments:tt)*) => {
        $receiver! {
            $($arguments)* {
                /// Change servers.
                manage_servers MANAGE_SERVERS = 0,
                /// See statistics and clients.
                read_servers READ_SERVERS = 1,
                /// Create, change and delete users.
                manage_users MANAGE_USERS = 2,
                /// See users.
                read_users READ_USERS = 3,
                /// Create, change and delete streams.
                manage_streams MANAGE_STREAMS = 4,
                /// See streams.
                read_streams READ_STREAMS = 5,
                /// Create, change and delete topics.
                manage_topics MANAGE_TOPICS = 6,
                /// See topics.
                read_topics READ_TOPICS = 7,
                /// Poll messages.
                poll_messages POLL_MESSAGES = 8,
                /// Send messages.
                send_messages SEND_MESSAGES = 9,
            }
        }
    };
}

/// Pass the rights on one stream to the macro `$receiver`, after its other arguments.
#[macro_export]
macro_rules! stream_rights {
    ($receiver:ident $($arguments:tt)*) => {
        $receiver! {
            $($arguments)* {
                /// Change and delete the stream.
                manage_stream MANAGE_STREAM = 0,
                /// See the stream.
                read_stream READ_STREAM = 1,
                /// Create, change and delete its topics.
                manage_topics MANAGE_TOPICS = 2,
                /// See its topics.
                read_topics READ_TOPICS = 3,
                /// Poll messages from its topics.
                poll_messages POLL_MESSAGES = 4,
                /// Send messages to its topics.
                send_messages SEND_MESSAGES = 5,
            }
        }
    };
}

/// Pass the rights on one topic to the macro `$receiver`, after its other arguments.
#[macro_export]
macro_rules! topic_rights {
    ($receiver:ident $($arguments:tt)*) => {
        $receiver! {
            $($arguments)* {
                /// Change and delete the topic.
                manage_topic MANAGE_TOPIC = 0,
                /// See the topic.
                read_topic READ_TOPIC = 1,
                /// Poll messages from it.
                poll_messages POLL_MESSAGES = 2,
                /// Send messages to it.
                send_messages SEND_MESSAGES = 3,
            }
        }
    };
}

macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$flag_doc:meta])* $flag:ident $constant:ident = $number:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[allow(clippy::struct_excessive_bools, reason = "independent rights, each one byte of the format")]
        pub struct $name {
            $($(#[$flag_doc])* pub $flag: bool,)+
        }

        impl $name {
            /// All rights.
            pub const ALL: Self = Self { $($flag: true,)+ };

            fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                Ok(Self { $($flag: reader.bool()?,)+ })
            }

            fn write(&self, out: &mut Writer<'_>) {
                $(out.bool(self.$flag);)+
            }
        }
    };
}

global_rights! { flags
    /// Rights on the whole server.
    GlobalPermissions
}

stream_rights! { flags
    /// Rights on one stream.
    StreamRights
}

topic_rights! { flags
    /// Rights on one topic.
    TopicPermissions
}

/// Rights on one stream and on individual topics of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamPermissions {
    /// Rights on the stream.
    pub rights: StreamRights,
    /// Rights on its topics, by topic id.
    pub topics: BTreeMap<u32, TopicPermissions>,
}

/// All permissions of a user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    /// Rights on the whole server.
    pub global: GlobalPermissions,
    /// Rights on individual streams, by stream id.
    pub streams: BTreeMap<u32, StreamPermissions>,
}

impl Permissions {
    /// Decode a complete record; trailing bytes are an error.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let permissions = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(permissions)
    }

    /// Append the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.write(&mut Writer::new(out));
    }

    /// Read `u32 byte_length · Permissions`.
    ///
    /// A length beyond the end of the payload is [`Malformed::Truncated`]; a length that differs from the size of the
    /// record, in either direction, is [`Malformed::InvalidLength`].
    pub(crate) fn read_sized(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = reader.u32()?;
        Self::decode(reader.bytes(length as usize)?).map_err(|_| Malformed::InvalidLength)
    }

    /// Write `u32 byte_length · Permissions`.
    pub(crate) fn write_sized(&self, out: &mut Writer<'_>) {
        out.count(self.encoded_bytes());
        self.write(out);
    }

    /// Read `u8 has_permissions [· u32 byte_length · Permissions]`, the form used in requests.
    pub(crate) fn read_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        if reader.is_present()? {
            Self::read_sized(reader).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Write `u8 has_permissions [· u32 byte_length · Permissions]`.
    pub(crate) fn write_optional(permissions: Option<&Self>, out: &mut Writer<'_>) {
        out.bool(permissions.is_some());
        if let Some(permissions) = permissions {
            permissions.write_sized(out);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let global = GlobalPermissions::read(reader)?;
        let mut streams = BTreeMap::new();
        let mut follows = reader.bool()?;
        while follows {
            let id = reader.u32()?;
            streams.insert(id, StreamPermissions::read(reader)?);
            follows = reader.bool()?;
        }
        Ok(Self { global, streams })
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.global.write(out);
        // The flag before the list and the chain byte after each item have the same meaning: another item follows.
        out.bool(!self.streams.is_empty());
        let mut left = self.streams.len();
        for (&id, stream) in &self.streams {
            left -= 1;
            out.u32(id);
            stream.write(out);
            out.bool(left > 0);
        }
    }

    fn encoded_bytes(&self) -> usize {
        // Ten rights and the flag; per stream its id, six rights, a flag and the chain byte; per topic its id,
        // four rights and the chain byte.
        let topics: usize = self
            .streams
            .values()
            .map(|stream| stream.topics.len())
            .sum();
        11 + 12 * self.streams.len() + 9 * topics
    }
}

impl StreamPermissions {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let rights = StreamRights::read(reader)?;
        let mut topics = BTreeMap::new();
        let mut follows = reader.bool()?;
        while follows {
            let id = reader.u32()?;
            topics.insert(id, TopicPermissions::read(reader)?);
            follows = reader.bool()?;
        }
        Ok(Self { rights, topics })
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.rights.write(out);
        out.bool(!self.topics.is_empty());
        let mut left = self.topics.len();
        for (&id, topic) in &self.topics {
            left -= 1;
            out.u32(id);
            topic.write(out);
            out.bool(left > 0);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use alloc::vec;

    use proptest::collection;
    use proptest::prelude::*;

    use super::*;

    fn flags<const N: usize>(bits: u16) -> [bool; N] {
        core::array::from_fn(|index| bits & (1 << index) != 0)
    }

    fn topic_permissions() -> impl Strategy<Value = TopicPermissions> {
        any::<u16>().prop_map(|bits| {
            let [manage_topic, read_topic, poll_messages, send_messages] = flags(bits);
            TopicPermissions {
                manage_topic,
                read_topic,
                poll_messages,
                send_messages,
            }
        })
    }

    fn stream_permissions() -> impl Strategy<Value = StreamPermissions> {
        let topics = collection::btree_map(any::<u32>(), topic_permissions(), 0..4);
        (any::<u16>(), topics).prop_map(|(bits, topics)| {
            let [
                manage_stream,
                read_stream,
                manage_topics,
                read_topics,
                poll_messages,
                send_messages,
            ] = flags(bits);
            StreamPermissions {
                rights: StreamRights {
                    manage_stream,
                    read_stream,
                    manage_topics,
                    read_topics,
                    poll_messages,
                    send_messages,
                },
                topics,
            }
        })
    }

    pub(crate) fn permissions() -> impl Strategy<Value = Permissions> {
        let streams = collection::btree_map(any::<u32>(), stream_permissions(), 0..4);
        (any::<u16>(), streams).prop_map(|(bits, streams)| {
            let [
                manage_servers,
                read_servers,
                manage_users,
                read_users,
                manage_streams,
                read_streams,
                manage_topics,
                read_topics,
                poll_messages,
                send_messages,
            ] = flags(bits);
            Permissions {
                global: GlobalPermissions {
                    manage_servers,
                    read_servers,
                    manage_users,
                    read_users,
                    manage_streams,
                    read_streams,
                    manage_topics,
                    read_topics,
                    poll_messages,
                    send_messages,
                },
                streams,
            }
        })
    }

    fn encoded(permissions: &Permissions) -> Vec<u8> {
        let mut bytes = Vec::new();
        permissions.encode(&mut bytes);
        bytes
    }

    #[test]
    fn nothing_is_eleven_bytes() {
        assert_eq!(encoded(&Permissions::default()), [0; 11]);
    }

    #[test]
    fn the_last_of_two_records_with_one_id_wins() {
        let record = |read, follows| {
            let mut bytes = vec![3, 0, 0, 0];
            bytes.extend_from_slice(&[0, read, 0, 0, 0, 0]);
            bytes.extend_from_slice(&[0, follows]);
            bytes
        };
        let bytes = [&[0; 10][..], &[1], &record(1, 1), &record(0, 0)].concat();
        let permissions = Permissions::decode(&bytes).expect("sound");
        assert_eq!(permissions.streams.len(), 1);
        assert!(!permissions.streams[&3].rights.read_stream);
    }

    #[test]
    fn any_byte_but_zero_is_a_right() {
        let mut bytes = [0; 11];
        bytes[9] = 0x40;
        let permissions = Permissions::decode(&bytes).expect("sound");
        assert!(permissions.global.send_messages);
        assert_eq!(Permissions::decode(&[0; 12]), Err(Malformed::TrailingBytes));
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(permissions in permissions()) {
            let bytes = encoded(&permissions);
            prop_assert_eq!(bytes.len(), permissions.encoded_bytes());
            for end in 0..bytes.len() {
                prop_assert_eq!(Permissions::decode(&bytes[..end]), Err(Malformed::Truncated));
            }
            prop_assert_eq!(Permissions::decode(&bytes), Ok(permissions));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in collection::vec(0_u8..3, 0..200)) {
            if let Ok(permissions) = Permissions::decode(&bytes) {
                prop_assert_eq!(Permissions::decode(&encoded(&permissions)), Ok(permissions));
            }
        }
    }
}
