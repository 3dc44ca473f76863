//! Users and the names of their access tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use headrace_model::{Timestamp, UserId};
use headrace_proto::catalog::v1;
use headrace_wire::UserStatus;

use crate::{ApplyError, Permissions};

/// A user. Secrets are not part of the catalogue.
#[derive(Debug, Clone)]
pub struct User {
    /// Its number; 0 is root. Never reused.
    pub id: UserId,
    /// Unique on the server, compared byte for byte.
    pub username: Arc<str>,
    /// When it was created.
    pub created_at: Timestamp,
    /// Whether it may log in, and sessions of it go on.
    pub status: UserStatus,
    /// Grows with every change of the password: what rests on an earlier one is over.
    pub password_version: u64,
    /// What it may do; `None`: nothing that needs a permission.
    pub permissions: Option<Permissions>,
    tokens: BTreeMap<Arc<str>, AccessToken>,
}

/// An access token, as its owner sees it in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// Unique among the owner's tokens.
    pub name: Arc<str>,
    /// `None`: never.
    pub expires_at: Option<Timestamp>,
    /// Never reused: distinguishes a token from a later one of the same user and name.
    pub incarnation: u64,
}

impl User {
    /// Build the record; the tokens stay those of `previous`.
    pub(crate) fn from_record(
        record: &v1::User,
        previous: Option<&Self>,
    ) -> Result<Self, ApplyError> {
        let id = UserId(record.id);
        Ok(Self {
            id,
            username: Arc::from(record.username.as_str()),
            created_at: Timestamp(record.created_at_micros),
            status: match record.status() {
                v1::UserStatus::Active => UserStatus::Active,
                v1::UserStatus::Inactive => UserStatus::Inactive,
                v1::UserStatus::Unspecified => {
                    return Err(ApplyError::InvalidUser {
                        user_id: id,
                        reason: "its status is not known",
                    });
                }
            },
            password_version: record.password_version,
            permissions: record.permissions.as_ref().map(Permissions::from),
            tokens: previous.map_or_else(BTreeMap::new, |user| user.tokens.clone()),
        })
    }

    /// Whether it may log in.
    pub fn is_active(&self) -> bool {
        self.status == UserStatus::Active
    }

    /// The access tokens, ascending by name. Those past their expiry are listed until they are cleaned.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = &AccessToken> {
        self.tokens.values()
    }

    /// The access token of exactly this name.
    pub fn token(&self, name: &str) -> Option<&AccessToken> {
        self.tokens.get(name)
    }

    pub(crate) fn put_token(&mut self, record: &v1::AccessToken) {
        let name: Arc<str> = Arc::from(record.name.as_str());
        self.tokens.insert(
            Arc::clone(&name),
            AccessToken {
                name,
                expires_at: (record.expires_at_micros != 0)
                    .then_some(Timestamp(record.expires_at_micros)),
                incarnation: record.incarnation,
            },
        );
    }

    pub(crate) fn remove_token(&mut self, name: &str) {
        self.tokens.remove(name);
    }

    pub(crate) fn to_record(&self) -> v1::User {
        v1::User {
            id: self.id.0,
            username: self.username.to_string(),
            created_at_micros: self.created_at.0,
            status: match self.status {
                UserStatus::Active => v1::UserStatus::Active,
                UserStatus::Inactive => v1::UserStatus::Inactive,
            }
            .into(),
            permissions: self.permissions.as_ref().map(Permissions::to_record),
            password_version: self.password_version,
        }
    }
}
