//! Users, logins and access tokens.

use super::part::{Part, payload};
use crate::permissions::Permissions;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, UserStatus};

/// User who is logged in now: response to both logins. Layout: `u32 user_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user_id: u32,
}

/// One user. Layout: `u32 id · u64 created_at · u8 status · Name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserHeader<'a> {
    /// The user's id; 0 is root.
    pub id: u32,
    /// Microseconds since the Unix epoch.
    pub created_at: u64,
    /// Active or inactive; an inactive user may not log in.
    pub status: UserStatus,
    /// Name of the user.
    pub username: &'a str,
}

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

/// One access token in a listing. Layout: `Name · u64 expiry_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenInfo<'a> {
    /// Name of the token, not the secret.
    pub name: &'a str,
    /// Microseconds since the Unix epoch; 0 means never.
    pub expiry_at: u64,
}

/// Secret of a new access token, returned only once: response to `CreatePersonalAccessToken`. Layout: `Name`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawAccessToken<'a> {
    /// The secret.
    pub token: &'a str,
}

payload!(Identity);
payload!(UserHeader<'a>);
payload!(UserDetails<'a>);
payload!(TokenInfo<'a>);
payload!(RawAccessToken<'a>);

impl core::fmt::Debug for RawAccessToken<'_> {
    /// Omits the secret, so that a logged response never reveals it.
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("RawAccessToken")
            .finish_non_exhaustive()
    }
}

impl<'a> Part<'a> for Identity {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            user_id: reader.u32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.user_id);
    }
}

impl<'a> Part<'a> for UserHeader<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            id: reader.u32()?,
            created_at: reader.u64()?,
            status: reader.u8()?.try_into()?,
            username: reader.name()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.id);
        out.u64(self.created_at);
        out.u8(self.status.code());
        out.name(self.username);
    }
}

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

impl<'a> Part<'a> for TokenInfo<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            name: reader.name()?,
            expiry_at: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.name(self.name);
        out.u64(self.expiry_at);
    }
}

impl<'a> Part<'a> for RawAccessToken<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            token: reader.name()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.name(self.token);
    }
}
