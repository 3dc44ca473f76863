//! Users, logins and access tokens. Secrets are passed on and never stored here.

use std::sync::Arc;

use headrace_catalog::{Action, Permissions, User, authorise_unless_self, may_grant};
use headrace_model::{UserId, limits};
use headrace_proto::{
    catalog::v1 as catalog,
    control::v1::{self as control, request::Operation},
    metadata::v1::{self as metadata, command::Operation as Change},
};
use headrace_wire::{
    Identifier, Status, UserStatus,
    command::{
        ChangePassword, CreateAccessToken, CreateUser, DeleteAccessToken, DeleteUser, GetUser,
        LoginUser, LoginWithAccessToken, UpdatePermissions, UpdateUser,
    },
    response::{TokenInfo, UserDetails, UserHeader},
};

use super::{Context, Handled, Outcome, check_new_name};

pub(crate) fn login(request: &LoginUser<'_>) -> Handled {
    check_username(request.username)?;
    check_password(request.password)?;
    Ok(Outcome::Control(Operation::LoginWithPassword(
        control::LoginWithPassword {
            username: request.username.into(),
            password: request.password.into(),
        },
    )))
}

pub(crate) fn login_with_token(request: &LoginWithAccessToken<'_>) -> Outcome {
    Outcome::Control(Operation::LoginWithToken(control::LoginWithToken {
        token: request.token.into(),
    }))
}

fn check_username(username: &str) -> Result<(), Status> {
    if limits::USERNAME_BYTES.contains(&username.len()) {
        Ok(())
    } else {
        Err(Status::INVALID_USERNAME)
    }
}

fn check_password(password: &str) -> Result<(), Status> {
    if limits::PASSWORD_BYTES.contains(&password.len()) {
        Ok(())
    } else {
        Err(Status::INVALID_PASSWORD)
    }
}

/// Return the status of a code that the catalog accepted.
pub(super) fn user_status(code: u8) -> UserStatus {
    UserStatus::try_from(code).unwrap_or(UserStatus::Inactive)
}

fn user_header(user: &User) -> UserHeader<'_> {
    UserHeader {
        id: user.id.0,
        created_at: user.created_at.0,
        status: user_status(user.status.code()),
        username: &user.username,
    }
}

impl Context<'_> {
    #[expect(clippy::unused_self, reason = "all handlers have one form")]
    pub(super) fn create_personal_access_token(&self, request: &CreateAccessToken<'_>) -> Handled {
        if !limits::ACCESS_TOKEN_NAME_BYTES.contains(&request.name.len()) {
            return Err(Status::INVALID_PERSONAL_ACCESS_TOKEN_NAME);
        }
        check_new_name(request.name, "").map_err(|_| Status::INVALID_PERSONAL_ACCESS_TOKEN_NAME)?;
        Ok(Outcome::Control(Operation::CreateAccessToken(
            control::CreateAccessToken {
                name: request.name.into(),
                expiry_micros: request.expiry,
            },
        )))
    }

    pub(super) fn find_user(&self, identifier: Identifier<'_>) -> Option<&Arc<User>> {
        match identifier {
            Identifier::Numeric(id) => self.catalog.user_by_id(UserId(id)),
            Identifier::Named(name) => self.catalog.user_by_name(name),
        }
    }

    pub(super) fn user(&self, identifier: Identifier<'_>) -> Result<&Arc<User>, Status> {
        self.find_user(identifier).ok_or(Status::RESOURCE_NOT_FOUND)
    }

    /// Return a user. Callers who may read only themselves get the same answer whether another user exists or not.
    pub(super) fn get_user(&self, request: &GetUser<'_>) -> Handled {
        let found = self.find_user(request.user);
        self.allow_unless_self(found, Action::ReadUsers)?;
        let Some(user) = found else {
            return Ok(Outcome::Missing);
        };
        Ok(Outcome::payload(|out| {
            UserDetails {
                user: user_header(user),
                permissions: user.permissions.as_ref().map(Into::into),
            }
            .encode(out);
        }))
    }

    /// Check permission unless the target is the caller. A user who does not exist counts as another user.
    pub(super) fn allow_unless_self(
        &self,
        target: Option<&Arc<User>>,
        action: Action,
    ) -> Result<(), Status> {
        match target {
            Some(user) if authorise_unless_self(self.catalog, self.user, user.id, action) => Ok(()),
            Some(_) => Err(Status::UNAUTHORIZED),
            None => self.allow(action),
        }
    }

    /// Check that users change and delete only those who have no more rights than they have themselves.
    pub(super) fn allow_changing(&self, user: &User) -> Result<(), Status> {
        let permissions = user.permissions.as_ref();
        if user.id == self.user || may_grant(self.catalog, self.user, None, permissions) {
            Ok(())
        } else {
            Err(Status::UNAUTHORIZED)
        }
    }

    /// Check that users grant only permissions that they have themselves.
    fn allow_granting(
        &self,
        before: Option<&Permissions>,
        after: Option<&catalog::Permissions>,
    ) -> Result<(), Status> {
        let after = after.map(Permissions::from);
        if may_grant(self.catalog, self.user, before, after.as_ref()) {
            Ok(())
        } else {
            Err(Status::UNAUTHORIZED)
        }
    }

    pub(super) fn get_users(&self) -> Handled {
        self.allow(Action::ReadUsers)?;
        Ok(Outcome::payload(|out| {
            for user in self.catalog.users() {
                user_header(user).encode(out);
            }
        }))
    }

    pub(super) fn create_user(&self, request: &CreateUser<'_>) -> Handled {
        self.allow(Action::ManageUsers)?;
        check_username(request.username)?;
        check_new_name(request.username, "").map_err(|_| Status::INVALID_USERNAME)?;
        check_password(request.password)?;
        let status = request.status()?;
        let permissions = (request.permissions.as_ref())
            .map(|permissions| Permissions::from(permissions).to_record());
        self.allow_granting(None, permissions.as_ref())?;
        Ok(Outcome::Control(Operation::CreateUser(
            control::CreateUser {
                username: request.username.into(),
                password: request.password.into(),
                status: status.code().into(),
                permissions,
            },
        )))
    }

    pub(super) fn delete_user(&self, request: &DeleteUser<'_>) -> Handled {
        self.allow(Action::ManageUsers)?;
        let user = self.user(request.user)?;
        self.allow_changing(user)?;
        let user_id = user.id.0;
        Ok(self.propose(Change::DeleteUser(metadata::DeleteUser { user_id })))
    }

    pub(super) fn update_user(&self, request: &UpdateUser<'_>) -> Handled {
        self.allow(Action::ManageUsers)?;
        if let Some(username) = request.username {
            check_username(username)?;
            check_new_name(username, "").map_err(|_| Status::INVALID_USERNAME)?;
        }
        let status = request.status()?;
        let user = self.user(request.user)?;
        // Only root may rename root, and root stays active: otherwise access might be lost for good.
        let is_roots_own = request.username.is_some() && self.user != UserId::ROOT;
        if user.id == UserId::ROOT && (is_roots_own || status == Some(UserStatus::Inactive)) {
            return Err(Status::UNAUTHORIZED);
        }
        // Certificates are of the user with their name: a name that is free again would be another user's way to the
        // rights of this one.
        let is_renamed = (request.username).is_some_and(|name| name != user.username.as_ref());
        let is_switched = status.is_some_and(|status| status != user_status(user.status.code()));
        if is_renamed || is_switched {
            self.allow_changing(user)?;
        }
        Ok(self.propose(Change::UpdateUser(metadata::UpdateUser {
            user_id: user.id.0,
            username: request.username.map(Into::into),
            status: status.map(|status| status.code().into()),
        })))
    }

    pub(super) fn update_permissions(&self, request: &UpdatePermissions<'_>) -> Handled {
        self.allow(Action::ManageUsers)?;
        let user = self.user(request.user)?;
        let permissions = (request.permissions.as_ref())
            .map(|permissions| Permissions::from(permissions).to_record());
        self.allow_granting(user.permissions.as_ref(), permissions.as_ref())?;
        Ok(
            self.propose(Change::UpdatePermissions(metadata::UpdatePermissions {
                user_id: user.id.0,
                permissions,
            })),
        )
    }

    pub(super) fn change_password(&self, request: &ChangePassword<'_>) -> Handled {
        check_password(request.current_password)?;
        check_password(request.new_password)?;
        let found = self.find_user(request.user);
        self.allow_unless_self(found, Action::ManageUsers)?;
        let user_id = found.ok_or(Status::RESOURCE_NOT_FOUND)?.id;
        Ok(Outcome::Control(Operation::ChangePassword(
            control::ChangePassword {
                user_id: user_id.0,
                current_password: request.current_password.into(),
                new_password: request.new_password.into(),
            },
        )))
    }

    pub(super) fn get_personal_access_tokens(&self) -> Outcome {
        Outcome::payload(|out| {
            for token in self.catalog.tokens_of(self.user) {
                TokenInfo {
                    name: &token.name,
                    expiry_at: token.expires_at.map_or(0, |expiry| expiry.0),
                }
                .encode(out);
            }
        })
    }

    pub(super) fn delete_personal_access_token(&self, request: &DeleteAccessToken<'_>) -> Outcome {
        self.propose(Change::DeleteAccessToken(metadata::DeleteAccessToken {
            name: request.name.into(),
        }))
    }
}
