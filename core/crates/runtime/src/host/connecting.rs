//! Connections that the shard opens.

use std::{
    os::fd::{IntoRawFd, OwnedFd},
    sync::Arc,
};

use headrace_shard::{Input, LinkNumber};

use super::Host;
use crate::{
    driver::{Operation, Outcome, TaskOutput},
    token::Token,
};

impl Host {
    /// Have a worker resolve the address and connect, both of which may block for long.
    pub(super) fn connect(&mut self, link: LinkNumber, address: Arc<str>) {
        let (connector, timeout) = (Arc::clone(&self.connector), self.connect_timeout);
        let task = move || {
            connector
                .connect(&address, timeout)
                .map(TaskOutput::new::<OwnedFd>)
        };
        let token = Token::Connect(link.0).encode();
        self.driver.submit(token, Operation::Task(Box::new(task)));
    }

    pub(super) fn link_connected(&mut self, link: u32, outcome: Outcome) {
        let Outcome::Task(result) = outcome else {
            return;
        };
        let result = match result {
            Ok(output) => {
                let socket: OwnedFd = output.take();
                Ok(self.state.sockets.insert(socket.into_raw_fd()))
            }
            Err(error) => Err(error.to_string()),
        };
        self.state.inputs.push_back(Input::Connected {
            link: LinkNumber(link),
            result,
        });
    }
}
