//! Requests: the 47 commands of the Iggy protocol (0.8) and the extensions, decoded and encoded.
//!
//! Enumeration codes whose validation comes after permission checks in the documented order (user status, compression,
//! kinds of a snapshot) stay raw bytes here; their accessors fail with status 3 when the handler calls them. Consumer
//! and polling kinds are validated by decoding. Lengths of user names and passwords are checked by the handler as well.

mod attributes;
mod extension;
mod path;
mod send;
mod system;
mod ticket;

use alloc::vec::Vec;

pub use attributes::*;
pub use extension::*;
pub use path::*;
pub use send::*;
pub use system::*;
pub use ticket::*;

use crate::frame::{REQUEST_HEADER_BYTES, RequestHeader};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Consumer, Identifier, Malformed, Status};

/// Payload of one kind of request.
trait Payload<'a>: Sized {
    /// Read the payload; remaining bytes are padding.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status>;

    fn write(&self, out: &mut Writer<'_>);

    /// Consumer that the request names.
    fn consumer(&self) -> Option<Consumer<'a>> {
        None
    }

    /// Stream and topic that the request names.
    fn target(&self) -> Target<'a> {
        (None, None)
    }

    /// Path, if the payload is nothing else.
    fn path(&self) -> Option<Path<'a>> {
        None
    }
}

/// Stream and topic that a request names.
pub type Target<'a> = (Option<Identifier<'a>>, Option<Identifier<'a>>);

/// Read the announced number of items. The count is untrusted: memory grows only with the items that are present.
fn counted<'a, T, E: From<Malformed>>(
    reader: &mut Reader<'a>,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let count = reader.u32()?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(read(reader)?);
    }
    Ok(items)
}

/// Declare the commands: code, attributes, enumeration, decoding and encoding from the rows that the build script makes
/// of `proto/commands.toml`.
macro_rules! commands {
    ($(
        $(#[$doc:meta])*
        $name:ident $(($payload:ident: $type:ty))? = $code:literal {
            permission: $permission:ident, attributes: [$($attribute:ident)*], served_by: $served_by:ident
        },
    )+) => {
        /// The number of a command.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum CommandCode {
            $($(#[$doc])* $name = $code,)+
        }

        impl CommandCode {
            /// Every command, by ascending code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name in `CamelCase`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// Permission that allows the command.
            pub const fn permission(self) -> Permission {
                match self {
                    $(Self::$name => Permission::$permission,)+
                }
            }

            /// Properties of the command.
            #[inline]
            pub const fn attributes(self) -> Attributes {
                match self {
                    $(Self::$name => Attributes::NONE$(.with(Attributes::$attribute))*,)+
                }
            }

            /// Servers that announce and serve the command.
            pub const fn served_by(self) -> ServedBy {
                match self {
                    $(Self::$name => ServedBy::$served_by,)+
                }
            }
        }

        impl TryFrom<u32> for CommandCode {
            type Error = Status;

            /// Fails with [`Status::INVALID_COMMAND`] for an undefined code.
            fn try_from(code: u32) -> Result<Self, Status> {
                match code {
                    $($code => Ok(Self::$name),)+
                    _ => Err(Status::INVALID_COMMAND),
                }
            }
        }

        /// A request, borrowed from the bytes of its frame.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Command<'a> {
            $($(#[$doc])* $name $(($type))?,)+
        }

        impl<'a> Command<'a> {
            /// Decode the payload of the request `code`.
            ///
            /// Bytes after a complete payload are ignored; commands without a payload ignore all of it.
            /// Fails with the documented status: 3 for an unknown code or an undecodable payload, 4 for a structural violation, for
            /// `SendMessages` also 6 (see [`SendMetadata::decode_prefix`]).
            pub fn decode(code: u32, payload: &'a [u8]) -> Result<Self, Status> {
                // Mutated only by commands with a payload.
                #[allow(unused_mut, reason = "depends on the table")]
                let mut reader = Reader::new(payload);
                match code {
                    $($code => Ok(Self::$name $((<$type as Payload>::read(&mut reader)?))?),)+
                    _ => Err(Status::INVALID_COMMAND),
                }
            }

            /// The number of this command.
            pub fn code(&self) -> CommandCode {
                match self {
                    $(Self::$name { .. } => CommandCode::$name,)+
                }
            }

            /// Consumer that the command names, of the commands for consumers.
            pub fn consumer(&self) -> Option<Consumer<'a>> {
                match self {
                    $(Self::$name $(($payload))? => { $(return $payload.consumer();)? })+
                }
                None
            }

            /// Stream and topic that the command names.
            pub fn target(&self) -> Target<'a> {
                match self {
                    $(Self::$name $(($payload))? => { $(return $payload.target();)? })+
                }
                (None, None)
            }

            /// Path that is the whole payload, of the commands that consist of one.
            pub fn path(&self) -> Option<Path<'a>> {
                match self {
                    $(Self::$name $(($payload))? => { $(return $payload.path();)? })+
                }
                None
            }

            fn write(&self, out: &mut Writer<'_>) {
                match self {
                    $(Self::$name $(($payload))? => { $($payload.write(out);)? })+
                }
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/payloads.rs"));
include!(concat!(env!("OUT_DIR"), "/commands.rs"));

impl CommandCode {
    /// The number on the wire.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Return whether this is an extension command. Clients of the plain Iggy protocol never send it and never see its
    /// responses.
    pub const fn is_extension(self) -> bool {
        self.code() >= 10_000
    }
}

impl Command<'_> {
    /// Append the payload, without the frame header.
    ///
    /// # Panics
    /// On a value that has no encoding: a name of 0 or of more than 255 bytes, a password or messages key of more than
    /// 255 bytes. For untrusted values use [`Self::try_encode`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.try_encode(out)
            .expect("names, passwords and keys were checked by the caller");
    }

    /// Append the payload, without the frame header.
    ///
    /// Fails with [`Status::INVALID_FORMAT`] on a value that has no encoding, and leaves `out` unchanged in that case.
    pub fn try_encode(&self, out: &mut Vec<u8>) -> Result<(), Status> {
        let start = out.len();
        let mut writer = Writer::new(out);
        self.write(&mut writer);
        if writer.is_representable() {
            Ok(())
        } else {
            out.truncate(start);
            Err(Status::INVALID_FORMAT)
        }
    }

    /// Append the complete frame: header and payload.
    ///
    /// Fails with [`Status::INVALID_FORMAT`] on a value that has no encoding or a payload whose length does not fit its
    /// field, and leaves `out` unchanged in that case.
    pub fn try_encode_frame(&self, out: &mut Vec<u8>) -> Result<(), Status> {
        let start = out.len();
        out.extend_from_slice(&[0; REQUEST_HEADER_BYTES]);
        let payload_start = out.len();
        let result = self.try_encode(out).and_then(|()| {
            RequestHeader::new(self.code().code(), out.len() - payload_start)
                .ok_or(Status::INVALID_FORMAT)
        });
        match result {
            Ok(header) => {
                out[start..payload_start].copy_from_slice(&header.encode());
                Ok(())
            }
            Err(status) => {
                out.truncate(start);
                Err(status)
            }
        }
    }
}

#[cfg(test)]
mod tests;
