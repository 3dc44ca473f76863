//! The hot path's read-only projection of the catalogue: look-ups and permission evaluation.
//!
//! A [`Catalog`] is one immutable version of what exists. Its records are shared, so the next version costs
//! what changed and no more. [`CatalogWriter`] publishes versions; a [`CatalogReader`] sees them without a
//! lock (SHARD-7). Nothing is decided here apart from look-ups and [`authorise()`]: the rules that change the
//! catalogue are the metadata service's.

mod answers;
mod apply;
mod authorise;
mod catalog;
mod changes;
mod credential;
mod granting;
mod group;
mod node;
mod permissions;
mod publication;
mod snapshot;
mod stages;
mod stream;
mod topic;
mod user;

pub use apply::ApplyError;
pub use authorise::{Action, authorise, authorise_unless_self};
pub use catalog::Catalog;
pub use changes::Changes;
pub use credential::Credential;
pub use granting::may_grant;
pub use group::{Group, Member, Revocation, TopicGroups};
pub use node::{Node, PartitionPlacement, TopicPlacement};
pub use permissions::{GlobalRights, Permissions, StreamPermissions, StreamRights, TopicRights};
pub use publication::{CatalogReader, CatalogWriter};
pub use stages::Stages;
pub use stream::Stream;
pub use topic::{Partition, Topic, Totals};
pub use user::{AccessToken, User};
