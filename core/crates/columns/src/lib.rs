//! Messages as columns in Arrow's layout, and columns as batches of messages.
//!
//! [`decode`] turns what a partition sends into the buffers of record batches, [`encode`] turns buffers into what a
//! partition takes. Nothing here knows of a library for Arrow: whoever has one wraps the buffers, which are handed over
//! as they are.
//!
//! A message has no key of its own. A row's key is kept in its user headers, under the reserved name [`KEY_HEADER`].
//!
//! | column | type | null |
//! |---|---|---|
//! | `stream`, `topic` | utf8, the same in every row | |
//! | `partition` | int32, the same in every row | |
//! | `offset` | int64 | |
//! | `timestamp` | int64, microseconds since the Unix epoch | |
//! | `origin_timestamp` | int64, microseconds since the Unix epoch | what the client wrote needs 64 bits |
//! | `id` | binary, 16 bytes: those of a UUID in their normal order | |
//! | `key` | binary | none |
//! | `value` | binary: the payload | |
//! | `headers` | list of struct (utf8 `key`, binary `value`), without the key | they cannot be read |

mod array;
mod column;
pub mod decode;
pub mod digest;
pub mod encode;
mod input;

pub use array::{Array, Buffer};
pub use column::Column;
pub use input::{Binary, Lists, Numbers, Positions, Rows, Slots};

/// The user header that holds a row's key: a text as its key, raw bytes as its value.
pub const KEY_HEADER: &str = "headrace.key";
