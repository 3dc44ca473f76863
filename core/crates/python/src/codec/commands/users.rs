//! Users, logins, access tokens.

use headrace_wire::{
    Command,
    command::{
        ChangePassword, CreateAccessToken, CreateUser, DeleteAccessToken, DeleteUser, GetUser,
        LoginUser, LoginWithAccessToken, UpdatePermissions, UpdateUser,
    },
};
use pyo3::prelude::*;

use super::{Encoded, encoded, plain};
use crate::codec::{
    arguments::{Name, name as checked_name, password as passphrase, user_status},
    permissions::Permissions,
};

plain! {
    encode_get_users => GetUsers;
    encode_logout_user => LogoutUser;
    encode_get_personal_access_tokens => GetPersonalAccessTokens;
}

#[pyfunction]
#[pyo3(signature = (*, user))]
fn encode_get_user(python: Python<'_>, user: Name) -> PyResult<Encoded<'_>> {
    let user = user.checked("user")?;
    encoded(python, &Command::GetUser(GetUser { user }))
}

#[pyfunction]
#[pyo3(signature = (*, user))]
fn encode_delete_user(python: Python<'_>, user: Name) -> PyResult<Encoded<'_>> {
    let user = user.checked("user")?;
    encoded(python, &Command::DeleteUser(DeleteUser { user }))
}

#[pyfunction]
#[pyo3(signature = (*, username, password, status = "active", permissions = None))]
fn encode_create_user<'py>(
    python: Python<'py>,
    username: &str,
    password: &str,
    status: &str,
    permissions: Option<PyRef<'py, Permissions>>,
) -> PyResult<Encoded<'py>> {
    let command = CreateUser {
        username: checked_name("username", username)?,
        password: passphrase("password", password)?,
        status_code: user_status(status)?,
        permissions: permissions.map(|permissions| permissions.to_wire()),
    };
    encoded(python, &Command::CreateUser(command))
}

#[pyfunction]
#[pyo3(signature = (*, user, username = None, status = None))]
fn encode_update_user<'py>(
    python: Python<'py>,
    user: Name,
    username: Option<&str>,
    status: Option<&str>,
) -> PyResult<Encoded<'py>> {
    let command = UpdateUser {
        user: user.checked("user")?,
        username: username
            .map(|text| checked_name("username", text))
            .transpose()?,
        status_code: status.map(user_status).transpose()?,
    };
    encoded(python, &Command::UpdateUser(command))
}

#[pyfunction]
#[pyo3(signature = (*, user, permissions))]
fn encode_update_permissions<'py>(
    python: Python<'py>,
    user: Name,
    permissions: Option<PyRef<'py, Permissions>>,
) -> PyResult<Encoded<'py>> {
    let command = UpdatePermissions {
        user: user.checked("user")?,
        permissions: permissions.map(|permissions| permissions.to_wire()),
    };
    encoded(python, &Command::UpdatePermissions(command))
}

#[pyfunction]
#[pyo3(signature = (*, user, current_password, new_password))]
fn encode_change_password<'py>(
    python: Python<'py>,
    user: Name,
    current_password: &str,
    new_password: &str,
) -> PyResult<Encoded<'py>> {
    let command = ChangePassword {
        user: user.checked("user")?,
        current_password: passphrase("current_password", current_password)?,
        new_password: passphrase("new_password", new_password)?,
    };
    encoded(python, &Command::ChangePassword(command))
}

#[pyfunction]
#[pyo3(signature = (*, username, password, version = "", context = ""))]
fn encode_login_user<'py>(
    python: Python<'py>,
    username: &str,
    password: &str,
    version: &str,
    context: &str,
) -> PyResult<Encoded<'py>> {
    let command = LoginUser {
        username: checked_name("username", username)?,
        password: passphrase("password", password)?,
        version,
        context,
    };
    encoded(python, &Command::LoginUser(command))
}

#[pyfunction]
#[pyo3(signature = (*, token))]
fn encode_login_with_personal_access_token<'py>(
    python: Python<'py>,
    token: &str,
) -> PyResult<Encoded<'py>> {
    let command = LoginWithAccessToken {
        token: checked_name("token", token)?,
    };
    encoded(python, &Command::LoginWithPersonalAccessToken(command))
}

#[pyfunction]
#[pyo3(signature = (*, name, expiry_micros = 0))]
fn encode_create_personal_access_token<'py>(
    python: Python<'py>,
    name: &str,
    expiry_micros: u64,
) -> PyResult<Encoded<'py>> {
    let command = CreateAccessToken {
        name: checked_name("name", name)?,
        expiry: expiry_micros,
    };
    encoded(python, &Command::CreatePersonalAccessToken(command))
}

#[pyfunction]
#[pyo3(signature = (*, name))]
fn encode_delete_personal_access_token<'py>(
    python: Python<'py>,
    name: &str,
) -> PyResult<Encoded<'py>> {
    let command = DeleteAccessToken {
        name: checked_name("name", name)?,
    };
    encoded(python, &Command::DeletePersonalAccessToken(command))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_get_users, module)?)?;
    module.add_function(wrap_pyfunction!(encode_logout_user, module)?)?;
    module.add_function(wrap_pyfunction!(encode_get_personal_access_tokens, module)?)?;
    module.add_function(wrap_pyfunction!(encode_get_user, module)?)?;
    module.add_function(wrap_pyfunction!(encode_delete_user, module)?)?;
    module.add_function(wrap_pyfunction!(encode_create_user, module)?)?;
    module.add_function(wrap_pyfunction!(encode_update_user, module)?)?;
    module.add_function(wrap_pyfunction!(encode_update_permissions, module)?)?;
    module.add_function(wrap_pyfunction!(encode_change_password, module)?)?;
    module.add_function(wrap_pyfunction!(encode_login_user, module)?)?;
    module.add_function(wrap_pyfunction!(
        encode_login_with_personal_access_token,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(
        encode_create_personal_access_token,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(
        encode_delete_personal_access_token,
        module
    )?)
}
