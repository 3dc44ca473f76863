//! Personal access tokens.

use super::Payload;
use crate::Status;
use crate::reader::Reader;
use crate::writer::Writer;

/// Create an access token for the caller. Layout: `Name · u64 expiry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateAccessToken<'a> {
    /// Name, unique for the user; the handler checks its length (50).
    pub name: &'a str,
    /// Lifetime in microseconds; 0 and 2^64-1 mean that the token never expires.
    pub expiry: u64,
}

/// Delete an access token of the caller. Layout: `Name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteAccessToken<'a> {
    /// Name of the token.
    pub name: &'a str,
}

/// Log in with an access token. Layout: `Name token`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LoginWithAccessToken<'a> {
    /// Secret of the token, not its name.
    pub token: &'a str,
}

impl core::fmt::Debug for LoginWithAccessToken<'_> {
    /// Omits the secret, so that a logged command never reveals it.
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("LoginWithAccessToken")
            .finish_non_exhaustive()
    }
}

impl<'a> Payload<'a> for CreateAccessToken<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            name: reader.name()?,
            expiry: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.name(self.name);
        out.u64(self.expiry);
    }
}

impl<'a> Payload<'a> for DeleteAccessToken<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            name: reader.name()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.name(self.name);
    }
}

impl<'a> Payload<'a> for LoginWithAccessToken<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            token: reader.name()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.name(self.token);
    }
}
