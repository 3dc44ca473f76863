//! Credentials of sessions. A session ends when its credential is no longer valid.

use headrace_model::{Timestamp, UserId};

use crate::Catalog;

/// Credential presented at a login. The session ends when it is no longer valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credential {
    /// The user.
    pub user: UserId,
    /// Version of the user's password at the login; 0 if the session does not depend on the password.
    pub password_version: u64,
    /// Incarnation of the access token presented; 0 if there was none.
    pub token: u64,
    /// Expiry of that token; `None` if it never expires.
    pub expires_at: Option<Timestamp>,
}

impl Credential {
    /// Credential that is valid as long as the user exists and is active; another component is responsible for the
    /// rest.
    pub const fn of_user(user: UserId) -> Self {
        Self {
            user,
            password_version: 0,
            token: 0,
            expires_at: None,
        }
    }

    /// Return whether the credential has expired.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

impl Catalog {
    /// Return whether a session with this credential remains valid, apart from its expiry: the user exists and is
    /// active, the password was not changed, and the access token was not deleted.
    ///
    /// A catalog that does not know the password version of the login yet is behind, which does not invalidate the
    /// session.
    pub fn accepts(&self, credential: &Credential) -> bool {
        self.user_by_id(credential.user).is_some_and(|user| {
            user.is_active()
                && (credential.password_version == 0
                    || user.password_version <= credential.password_version)
                && (credential.token == 0
                    || user
                        .tokens()
                        .any(|token| token.incarnation == credential.token))
        })
    }
}

#[cfg(test)]
mod tests {
    use headrace_proto::catalog::v1;

    use super::*;

    const CREDENTIAL: Credential = Credential {
        user: UserId(5),
        password_version: 3,
        token: 8,
        expires_at: Some(Timestamp(100)),
    };

    fn catalog(status: v1::UserStatus, password_version: u64, token: u64) -> Catalog {
        Catalog::from_snapshot(&v1::Snapshot {
            version: 1,
            users: vec![v1::User {
                id: 5,
                username: "ann".into(),
                status: status.into(),
                password_version,
                ..Default::default()
            }],
            access_tokens: vec![v1::AccessToken {
                user_id: 5,
                name: "ci".into(),
                expires_at_micros: 100,
                incarnation: token,
            }],
            ..Default::default()
        })
        .expect("a sound snapshot")
    }

    #[test]
    fn a_credential_ends_with_anything_that_it_rests_on() {
        use v1::UserStatus::{Active, Inactive};
        assert!(catalog(Active, 3, 8).accepts(&CREDENTIAL));
        assert!(catalog(Active, 2, 8).accepts(&CREDENTIAL), "it is behind");
        assert!(!catalog(Inactive, 3, 8).accepts(&CREDENTIAL));
        assert!(!catalog(Active, 4, 8).accepts(&CREDENTIAL), "new password");
        assert!(!catalog(Active, 3, 9).accepts(&CREDENTIAL), "another token");
        assert!(!Catalog::default().accepts(&CREDENTIAL));
        assert!(!CREDENTIAL.has_expired(Timestamp(99)));
        assert!(CREDENTIAL.has_expired(Timestamp(100)));
    }

    #[test]
    fn a_credential_of_a_user_alone_ends_with_the_user_alone() {
        let credential = Credential::of_user(UserId(5));
        assert!(catalog(v1::UserStatus::Active, 9, 9).accepts(&credential));
        assert!(!catalog(v1::UserStatus::Inactive, 9, 9).accepts(&credential));
        assert!(!credential.has_expired(Timestamp(u64::MAX)));
    }
}
