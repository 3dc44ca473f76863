//! Columns of messages as Arrow record batches, and record batches as messages.
//!
//! [`batches`] wraps the buffers that the crate `columns` has decoded in arrays of Arrow, without copying them. [`rows`]
//! reads tables of any Arrow library, by the names of their columns, as messages to send. Pointers of Arrow's C interface
//! are left to the caller.

pub mod batches;
mod bytes;
mod error;
mod headers;
mod payloads;
mod plan;
pub mod rows;

pub use error::{ColumnError, RowError, RowProblem};
pub use plan::{AddedHeader, Codec, Naming, Plan};
pub use rows::{Row, Rows};
