//! Tests of the catalog as the shards hold it.

mod groups;
mod nodes;
mod permissions;
mod stages;
mod updates;
