//! Control plane with one user, root.

use headrace_proto::control::v1::{
    Credential, HostStatistics, Reply, Request, reply::Body, request::Operation,
};
use headrace_shard::{Input, Origin};
use headrace_wire::Status;

use super::{World, requests::PASSWORD};

impl World {
    pub(super) fn ask_control_plane(
        &mut self,
        (process, shard): (usize, usize),
        origin: Origin,
        request: Request,
    ) {
        if matches!(request.operation, Some(Operation::CatchUp(_))) {
            self.change(Vec::new());
            while self.processes[process].hear() {}
        }
        self.control_requests.push(request.clone());
        if self.control_held {
            self.asked.push_back((process, shard, origin, request));
        } else {
            let reply = self.control_reply(&request);
            self.processes[process].inputs[shard].push_back(Input::ControlReply { origin, reply });
        }
    }

    /// Answer the requests that were held back.
    pub fn release_control(&mut self) {
        self.control_held = false;
        while let Some((process, shard, origin, request)) = self.asked.pop_front() {
            let reply = self.control_reply(&request);
            self.processes[process].inputs[shard].push_back(Input::ControlReply { origin, reply });
        }
        self.run();
    }

    fn control_reply(&self, request: &Request) -> Reply {
        match &request.operation {
            Some(Operation::LoginWithPassword(login)) if login.password == PASSWORD.as_bytes() => {
                Reply {
                    body: Some(Body::UserId(0)),
                    credential: Some(self.credential),
                    ..Default::default()
                }
            }
            Some(Operation::LoginWithPassword(_)) => Reply {
                status: Status::INVALID_CREDENTIALS.0,
                ..Default::default()
            },
            Some(Operation::ChangePassword(_)) => Reply {
                credential: Some(Credential {
                    password_version: self.credential.password_version + 1,
                    ..Default::default()
                }),
                ..Default::default()
            },
            Some(Operation::GetHostStatistics(_)) => Reply {
                body: Some(Body::HostStatistics(HostStatistics::default())),
                ..Default::default()
            },
            _ => Reply::default(),
        }
    }
}
