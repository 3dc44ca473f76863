//! Messages as columns in Arrow's layout, and columns as batches of messages.
//!
//! [`decode`] turns payloads of a partition into the buffers of record batches, [`encode`] turns buffers into batches
//! for a partition. This crate does not depend on an Arrow library: the caller wraps the buffers in one, without
//! copying.
//!
//! A message has no key of its own. A row's key is stored in its user headers, under the reserved name [`KEY_HEADER`].
//!
//! | column | type | null if |
//! |---|---|---|
//! | `stream`, `topic` | utf8, the same in every row | never |
//! | `partition` | int32, the same in every row | never |
//! | `offset` | int64 | never |
//! | `timestamp` | int64, microseconds since the Unix epoch | never |
//! | `origin_timestamp` | int64, microseconds since the Unix epoch | the client's value needs 64 bits |
//! | `id` | binary, 16 bytes: those of a UUID in their normal order | never |
//! | `key` | binary | the message has no key |
//! | `value` | binary: the payload | never |
//! | `headers` | list of struct (utf8 `key`, binary `value`), without the key | the headers are not readable |

mod array;
mod column;
pub mod decode;
pub mod digest;
pub mod encode;
mod input;

pub use array::{Array, Buffer};
pub use column::Column;
pub use input::{Binary, Lists, Numbers, Positions, Rows, Validity};

/// User header that holds a row's key: the header's key is text, its value raw bytes.
pub const KEY_HEADER: &str = "headrace.key";
