//! The formats that existing clients speak.

mod published;
mod recorded;
mod statuses;
