//! Recovery: from the files of a directory to an open log.

pub(crate) mod foreign;
pub(crate) mod identity;
mod losses;
pub(crate) mod recover;
pub(crate) mod recovered;
pub(crate) mod scan;
