//! What the shards hold of the catalogue.

mod groups;
mod nodes;
mod permissions;
mod stages;
mod updates;
