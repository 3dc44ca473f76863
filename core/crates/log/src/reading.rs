//! Read path: from a start position to messages, in memory or in files.

pub(crate) mod caches;
pub(crate) mod cursor;
pub(crate) mod from_memory;
pub(crate) mod from_storage;
pub(crate) mod load;
pub(crate) mod locate;
pub(crate) mod plan;
pub(crate) mod read;
pub(crate) mod verified;
