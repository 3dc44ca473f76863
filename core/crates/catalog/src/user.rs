//! Users and the names of their access tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use headrace_model::{Timestamp, UserId};
use headrace_proto::catalog::v1;
use headrace_wire::UserStatus;

use crate::{ApplyError, Permissions, Quota, Rates};

/// A user. Secrets are not part of the catalog.
#[derive(Debug, Clone)]
pub struct User {
    /// Id; 0 is root. Never reused.
    pub id: UserId,
    /// Name, unique on the server, compared byte for byte.
    pub username: Arc<str>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Status: only active users may log in and keep their sessions.
    pub status: UserStatus,
    /// Password version: grows with every change. Sessions based on an earlier version end.
    pub password_version: u64,
    /// Permissions; `None` allows only actions that need no permission.
    pub permissions: Option<Permissions>,
    /// Limits of what the user uses over all of its connections.
    pub quota: Quota,
    /// Rates of the quota. All versions of the catalog share them as long as the limits do not change.
    pub rates: Rates,
    tokens: BTreeMap<Arc<str>, AccessToken>,
}

/// An access token, as listed to its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// Name, unique among the owner's tokens.
    pub name: Arc<str>,
    /// Expiry; `None` if the token never expires.
    pub expires_at: Option<Timestamp>,
    /// Incarnation, never reused: distinguishes a token from a later one of the same user and name.
    pub incarnation: u64,
}

impl User {
    /// Build the record, with the tokens of `known` and the rates of `previous`, which may be of an earlier version.
    pub(crate) fn from_record(
        record: &v1::User,
        known: Option<&Self>,
        previous: Option<&Self>,
    ) -> Result<Self, ApplyError> {
        let id = UserId(record.id);
        let quota = Quota::from_record(record.quota);
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
            quota,
            rates: Rates::of(&quota, previous.map(|user| &user.rates)),
            tokens: known.map_or_else(BTreeMap::new, |user| user.tokens.clone()),
        })
    }

    /// Return whether the user may log in.
    pub fn is_active(&self) -> bool {
        self.status == UserStatus::Active
    }

    /// Access tokens, ascending by name. Expired ones are listed until they are removed.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = &AccessToken> {
        self.tokens.values()
    }

    /// Find an access token by its exact name.
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
            quota: self.quota.to_record(),
        }
    }
}
