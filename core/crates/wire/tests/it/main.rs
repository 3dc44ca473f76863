//! Tests of the formats used by existing clients.

mod published;
mod recorded;
mod statuses;
