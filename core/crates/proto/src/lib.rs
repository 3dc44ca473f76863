//! Protobuf types generated from the repository's `proto` directory.
//!
//! One module per package with the same name: `headrace.catalog.v1` is [`catalog::v1`]. The fields are documented in
//! the `.proto` files, from which the Python types are generated as well.
#![no_std]

/// Catalog: streams, topics, partitions, users, access tokens, and the changes to them.
pub mod catalog {
    /// `headrace.catalog.v1`.
    #[allow(
        missing_docs,
        unused_qualifications,
        clippy::all,
        clippy::pedantic,
        reason = "generated: documented in the .proto files, styled by the generator"
    )]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/headrace.catalog.v1.rs"));
    }
}

/// Commands that change the catalog.
pub mod metadata {
    /// `headrace.metadata.v1`.
    #[allow(
        missing_docs,
        unused_qualifications,
        clippy::all,
        clippy::pedantic,
        reason = "generated: documented in the .proto files, styled by the generator"
    )]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/headrace.metadata.v1.rs"));
    }
}

/// Requests of a gateway to the control plane, and the responses.
pub mod control {
    /// `headrace.control.v1`.
    #[allow(
        missing_docs,
        unused_qualifications,
        clippy::all,
        clippy::pedantic,
        reason = "generated: documented in the .proto files, styled by the generator"
    )]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/headrace.control.v1.rs"));
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use crate::{catalog, control, metadata};

    /// Packages refer to one another by module path: compilation fails if the nesting is wrong.
    #[test]
    fn a_request_carries_a_command_and_survives_the_wire() {
        let request = control::v1::Request {
            client_id: 7,
            address: "127.0.0.1:1".into(),
            user_id: Some(0),
            transport: 1,
            interface: 0,
            trace: None,
            operation: Some(control::v1::request::Operation::Command(
                metadata::v1::Command {
                    actor_user_id: 0,
                    meant: None,
                    operation: Some(metadata::v1::command::Operation::UpdatePermissions(
                        metadata::v1::UpdatePermissions {
                            user_id: 3,
                            permissions: Some(catalog::v1::Permissions::default()),
                        },
                    )),
                },
            )),
        };
        let bytes = request.encode_to_vec();
        assert_eq!(control::v1::Request::decode(bytes.as_slice()), Ok(request));
    }

    /// User 0 is root: a logged-in root must be distinguishable from an unauthenticated client.
    #[test]
    fn user_zero_is_not_an_unauthenticated_client() {
        let anonymous = control::v1::Request::default();
        let root = control::v1::Request {
            user_id: Some(0),
            ..Default::default()
        };
        assert_ne!(anonymous.encode_to_vec(), root.encode_to_vec());
    }
}
