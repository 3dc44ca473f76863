//! Tickets: signed, short-lived capabilities within a cluster.
//!
//! The services of a cluster share a secret. A service that knows the secret can issue tickets, for itself or for a
//! user whose rights it has checked, and can verify tickets without a call to another service. A ticket is presented
//! once, when a connection is opened or a call begins.
//!
//! This crate reads no clock and generates no random numbers: both are arguments.
//!
//! # Text format
//!
//! `hrt2.` followed by the URL-safe base64 encoding, without padding, of the following bytes. Numbers are
//! little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | scope: 1 the cluster, 2 a topic, 3 a partition |
//! | 1 | access: bit 0 reading, bit 1 writing |
//! | 4, 4, 4 | stream, topic, partition; 0 where the scope has none |
//! | 8 | incarnation of the topic or of the partition; 0 if the scope has none |
//! | 8 | not after: seconds since the Unix epoch |
//! | 16 | id |
//! | 4 | issuing user; 2^32-1 if a service issued the ticket |
//! | 8 | version of this user's password; 0 if a service issued the ticket |
//! | 8 | incarnation of the access token with which this user was logged in; 0 if there was none |
//! | 1 to 255 | name of the holder |
//! | 32 | HMAC-SHA256 of `hrt2.` and all bytes before |
//!
//! # Key
//!
//! HMAC-SHA256, under the secret, of `headrace ticket v1`, a byte 0 and the name of the cluster. A ticket of one
//! cluster is therefore not valid in another cluster with the same secret, and neither the secret nor any other key
//! derived from it can be computed from the key. While the secret is being changed, a key verifies tickets of two
//! secrets and signs with one.
#![no_std]

extern crate alloc;

mod key;
mod scope;
mod ticket;

pub use key::Key;
pub use scope::{Access, Scope};
pub use ticket::{
    HOLDER_BYTES_MAX, InvalidHolder, InvalidTicket, Issuer, LIFETIME_SECONDS, Ticket,
};
