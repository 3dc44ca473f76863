//! Read-only projection of the catalog for the hot path: look-ups and permission checks.
//!
//! A [`Catalog`] is one immutable version. Its records are shared, so a new version costs only what has changed. A
//! [`CatalogWriter`] publishes versions; a [`CatalogReader`] loads them without a lock (SHARD-7). The only logic here
//! is look-up and [`authorise()`]: the rules that change the catalog belong to the metadata service.

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
mod quota;
mod rate;
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
pub use quota::Quota;
pub use rate::{Rate, Rates};
pub use stages::Stages;
pub use stream::Stream;
pub use topic::{Partition, Topic, Totals};
pub use user::{AccessToken, User};
