//! Directories: the files in them that are another partition's, lost or to be dropped.

mod foreign;
mod identity;
mod purge;
