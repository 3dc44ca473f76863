//! Users with their permissions.

use super::UserHeader;
use super::part::{Part, payload};
use crate::Malformed;
use crate::permissions::Permissions;
use crate::reader::Reader;
use crate::writer::Writer;

/// One user with its permissions: response to `GetUser` and `CreateUser`.
///
/// Layout: `UserHeader`, then `u8 1 · u32 length · Permissions`, or four zero bytes for a user without a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserDetails<'a> {
    /// The user.
    pub user: UserHeader<'a>,
    /// Permissions of the user; `None` grants nothing that needs a permission.
    pub permissions: Option<Permissions>,
}

payload!(UserDetails<'a>);

impl<'a> Part<'a> for UserDetails<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let user = UserHeader::read(reader)?;
        let permissions = match reader.u8()? {
            1 => Some(Permissions::read_sized(reader)?),
            // First of the four zero bytes that encode a missing record.
            0 => {
                if reader.array::<3>()? != &[0; 3] {
                    return Err(Malformed::ReservedNotZero);
                }
                None
            }
            flag => return Err(Malformed::UnknownCode(flag)),
        };
        Ok(Self { user, permissions })
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.user.write(out);
        match &self.permissions {
            Some(permissions) => {
                out.u8(1);
                permissions.write_sized(out);
            }
            None => out.u32(0),
        }
    }
}
