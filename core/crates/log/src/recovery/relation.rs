//! Relation of a manifest to the partition at whose place it is.

use alloc::format;
use alloc::string::String;

use crate::manifest::{Manifest, Owner};

/// Relation of a manifest to the partition.
#[derive(Debug)]
pub(crate) enum Relation {
    /// The directory is this partition's.
    Own,
    /// The directory is that of an earlier partition with the same number.
    Earlier,
    /// The directory is another partition's, for this reason.
    Foreign(String),
}

/// Compare a manifest with the partition at whose place it is, and with the incarnation that the catalog has.
pub(crate) fn relation(manifest: &Manifest, own: Owner, catalog_incarnation: u64) -> Relation {
    let namespace = manifest
        .owner
        .map_or(own.namespace, |owner| owner.namespace);
    let catalog = manifest.owner.map_or(0, |owner| owner.catalog);
    let incarnation = manifest.generation.incarnation;
    if catalog != own.catalog && catalog != 0 && own.catalog != 0 {
        return Relation::Foreign(format!(
            "the directory belongs to partition {namespace} of another catalog ({catalog:032x}, this one is \
             {:032x}): move it to the data directory that it comes from",
            own.catalog
        ));
    }
    if namespace != own.namespace {
        return Relation::Foreign(format!(
            "the directory belongs to partition {namespace}: move it to its place, or purge the topic, which moves \
             it to streams/set-aside"
        ));
    }
    if manifest.is_repaired() {
        return Relation::Own;
    }
    if incarnation > catalog_incarnation {
        return Relation::Foreign(format!(
            "the directory belongs to a later partition with this number (incarnation {incarnation}, the catalog \
             has {catalog_incarnation}): the catalog is older than the directory"
        ));
    }
    if incarnation < catalog_incarnation {
        return Relation::Earlier;
    }
    Relation::Own
}
