//! Requests that open a connection.

use headrace_wire::Command;
use headrace_wire::command::{LoginUser, LoginWithAccessToken, LoginWithTicket};

/// Version of the client that is sent to the server for information.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Credentials.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// None: the transport is logged in already.
    None,
    /// User and password.
    Password {
        /// The user.
        username: String,
        /// The password.
        password: String,
    },
    /// A personal access token.
    AccessToken(String),
    /// A ticket for a topic, at a partition node.
    Ticket(String),
}

impl std::fmt::Debug for Login {
    /// Omits the secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::None => "None",
            Self::Password { .. } => "Password",
            Self::AccessToken(_) => "AccessToken",
            Self::Ticket(_) => "Ticket",
        })
    }
}

/// Part of the conversation at the start of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Capabilities,
    Extension,
    Login,
}

impl Login {
    /// Requests in their order. They are sent together; the last one is the login.
    pub(super) fn steps(&self, reports_offsets: bool) -> Vec<(Step, Command<'_>)> {
        let login = match self {
            // Any request shows that the session works.
            Self::None => Command::Ping,
            Self::Password { username, password } => Command::LoginUser(LoginUser {
                username,
                password,
                version: VERSION,
                context: "",
            }),
            Self::AccessToken(token) => {
                Command::LoginWithPersonalAccessToken(LoginWithAccessToken { token })
            }
            Self::Ticket(ticket) => Command::LoginWithTicket(LoginWithTicket { ticket }),
        };
        let mut steps = vec![
            (Step::Capabilities, Command::Capabilities),
            (Step::Extension, Command::ExplainRefusals),
        ];
        if reports_offsets {
            steps.push((Step::Extension, Command::ReportOffsets));
        }
        steps.push((Step::Login, login));
        steps
    }
}
