//! The catalogue as shards hold it.

mod groups;
mod nodes;
mod permissions;
mod stages;
mod updates;
