//! User and login requests.
//!
//! `Debug` of a request never reveals a password.

use core::fmt;

use super::Payload;
use crate::permissions::Permissions;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Malformed, Status, UserStatus};

/// One user. Layout: `Ident user`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetUser<'a> {
    /// The user.
    pub user: Identifier<'a>,
}

/// Delete a user. Layout: `Ident user`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteUser<'a> {
    /// The user.
    pub user: Identifier<'a>,
}

/// Create a user.
///
/// Layout: `Name username · Pass password · u8 status · u8 has_permissions [· u32 length · Permissions]`.
#[derive(Clone, PartialEq, Eq)]
pub struct CreateUser<'a> {
    /// Name; the handler checks its length (43).
    pub username: &'a str,
    /// Password; the handler checks its length (44).
    pub password: &'a str,
    /// Code of a [`UserStatus`], unchecked.
    pub status_code: u8,
    /// Permissions; `None` grants nothing that needs a permission.
    pub permissions: Option<Permissions>,
}

/// Rename a user or change its status. Layout: `Ident user · u8 has_username [· Name] · u8 has_status [· u8 status]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateUser<'a> {
    /// The user.
    pub user: Identifier<'a>,
    /// New name, if it changes.
    pub username: Option<&'a str>,
    /// Code of the new [`UserStatus`], unchecked, if it changes.
    pub status_code: Option<u8>,
}

/// Replace the permissions of a user. Layout: `Ident user · u8 has_permissions [· u32 length · Permissions]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdatePermissions<'a> {
    /// The user.
    pub user: Identifier<'a>,
    /// Permissions; `None` removes the record.
    pub permissions: Option<Permissions>,
}

/// Change a password. Layout: `Ident user · Pass current · Pass new`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChangePassword<'a> {
    /// The user.
    pub user: Identifier<'a>,
    /// Current password of the user, required even if another user makes the request.
    pub current_password: &'a str,
    /// The new password.
    pub new_password: &'a str,
}

/// Log in with a password.
///
/// Layout: `Name username · Pass password · Str32 version · Str32 context`; both trailing texts are mandatory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LoginUser<'a> {
    /// The name.
    pub username: &'a str,
    /// The password.
    pub password: &'a str,
    /// Version of the client, self-reported; may be empty, not interpreted.
    pub version: &'a str,
    /// Description of the client, self-reported; may be empty, not interpreted.
    pub context: &'a str,
}

impl CreateUser<'_> {
    /// Status of the new user. Fails with [`Status::INVALID_COMMAND`] on an unknown code.
    pub fn status(&self) -> Result<UserStatus, Status> {
        Ok(UserStatus::try_from(self.status_code)?)
    }
}

impl UpdateUser<'_> {
    /// New status, if it changes. Fails with [`Status::INVALID_COMMAND`] on an unknown code.
    pub fn status(&self) -> Result<Option<UserStatus>, Status> {
        self.status_code
            .map(|code| UserStatus::try_from(code).map_err(Status::from))
            .transpose()
    }
}

impl fmt::Debug for CreateUser<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CreateUser")
            .field("username", &self.username)
            .field("status_code", &self.status_code)
            .field("permissions", &self.permissions)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ChangePassword<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ChangePassword")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for LoginUser<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LoginUser")
            .field("username", &self.username)
            .field("version", &self.version)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

impl<'a> Payload<'a> for GetUser<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            user: reader.identifier()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.user);
    }
}

impl<'a> Payload<'a> for DeleteUser<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            user: reader.identifier()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.user);
    }
}

impl<'a> Payload<'a> for CreateUser<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            username: reader.name()?,
            password: reader.password()?,
            status_code: reader.u8()?,
            permissions: Permissions::read_optional(reader)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.name(self.username);
        out.password(self.password);
        out.u8(self.status_code);
        Permissions::write_optional(self.permissions.as_ref(), out);
    }
}

impl<'a> Payload<'a> for UpdateUser<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            user: reader.identifier()?,
            username: optional(reader, Reader::name)?,
            status_code: optional(reader, Reader::u8)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.user);
        out.bool(self.username.is_some());
        if let Some(username) = self.username {
            out.name(username);
        }
        out.bool(self.status_code.is_some());
        if let Some(code) = self.status_code {
            out.u8(code);
        }
    }
}

impl<'a> Payload<'a> for UpdatePermissions<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            user: reader.identifier()?,
            permissions: Permissions::read_optional(reader)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.user);
        Permissions::write_optional(self.permissions.as_ref(), out);
    }
}

impl<'a> Payload<'a> for ChangePassword<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            user: reader.identifier()?,
            current_password: reader.password()?,
            new_password: reader.password()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.user);
        out.password(self.current_password);
        out.password(self.new_password);
    }
}

impl<'a> Payload<'a> for LoginUser<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            username: reader.name()?,
            password: reader.password()?,
            version: reader.str32()?,
            context: reader.str32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.name(self.username);
        out.password(self.password);
        out.str32(self.version);
        out.str32(self.context);
    }
}

/// Read an optional field after its flag; a flag other than 1 means that the field is absent.
fn optional<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    if reader.is_present()? {
        read(reader).map(Some)
    } else {
        Ok(None)
    }
}
