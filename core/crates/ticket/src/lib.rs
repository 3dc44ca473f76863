//! Tickets: what their holder may do in a cluster, signed, for a short while.
//!
//! Services of a cluster share a secret. Who knows it makes tickets, for itself or for somebody whose rights it has
//! checked; who knows it can tell such a ticket from any other text, without asking anybody. A ticket is shown once, when a
//! connection is opened or a call begins.
//!
//! Nothing here reads a clock or makes random numbers: both are handed in.
//!
//! # The text
//!
//! `hrt2.` and, in the alphabet of base64 that is safe in addresses, without padding, the following bytes. Numbers are little
//! endian.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | scope: 1 the cluster, 2 a topic, 3 a partition |
//! | 1 | access: bit 0 reading, bit 1 writing |
//! | 4, 4, 4 | stream, topic, partition; 0 where the scope has none |
//! | 8 | incarnation of the topic or of the partition; 0 where there is none |
//! | 8 | not after: seconds since the Unix epoch |
//! | 16 | id |
//! | 4 | user who has made it; 2^32-1 where a service has |
//! | 8 | version of this user's password; 0 where a service has made it |
//! | 8 | incarnation of the access token that this user was logged in with; 0 where there was none |
//! | 1 to 255 | name of the holder |
//! | 32 | HMAC-SHA256 of `hrt2.` and all bytes before |
//!
//! # The key
//!
//! HMAC-SHA256, under the secret, of `headrace ticket v1`, a byte 0 and the name of the cluster: a ticket of one cluster is none
//! of another that has the same secret, and neither the secret nor anything else that is derived from it can be had
//! from it. While the secret is changed a key recognises the tickets of two secrets, and signs with one.
#![no_std]

extern crate alloc;

mod key;
mod scope;
mod ticket;

pub use key::Key;
pub use scope::{Access, Scope};
pub use ticket::{HOLDER_BYTES_MAX, InvalidHolder, InvalidTicket, Issuer, LIFE_SECONDS, Ticket};
