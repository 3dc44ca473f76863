//! Areas of the frames for log repair.

use super::definition::{area, reasons};

/// Maximum number of headers in one answer.
pub const HEADERS_MAX: u64 = 128;

area! {
    /// Request for the headers of a range, at most [`HEADERS_MAX`].
    RequestHeaders {
        /// Echoed in the answer.
        nonce: u128 = 128,
        /// Lowest op wanted.
        op_min: u64 = 144,
        /// Highest op wanted.
        op_max: u64 = 152,
    }
}

area! {
    /// Headers of a range, as far as the author has them; listed in the body, descending by op.
    Headers {
        /// Copied from the [`RequestHeaders`].
        nonce: u128 = 128,
        /// Number of headers in the body.
        count: u32 = 144,
    }
}

area! {
    /// Request for one prepare, or for a range. The answer consists of the original prepare frames.
    RequestPrepare {
        /// Checksum of the prepare `op`; 0 for the committed prepare.
        prepare_checksum: u128 = 128,
        /// Op wanted, or first op of the range.
        op: u64 = 144,
        /// Last op of the range; 0 for a single op.
        op_max: u64 = 152,
        /// Echoed in a refusal.
        nonce: u64 = 160,
    }
}

reasons! {
    /// Reason why a prepare is not served.
    NoPrepareReason {
        /// The prepare was compacted behind a checkpoint.
        Evicted = 1,
        /// The prepare was stored here and is damaged.
        Faulty = 2,
        /// This replica has no prepare, or another one, at this op.
        Unknown = 3,
    }
}

area! {
    /// Refusal of a [`RequestPrepare`]. No evidence about whether the prepare was committed.
    NoPrepare {
        /// Copied from the [`RequestPrepare`].
        prepare_checksum: u128 = 128,
        /// Copied from the [`RequestPrepare`].
        op: u64 = 144,
        /// Lowest op that the author's log still holds.
        log_floor: u64 = 152,
        /// Copied from the [`RequestPrepare`].
        nonce: u64 = 160,
        /// Reason for the refusal.
        reason: NoPrepareReason = 168,
    }
}
