//! Repair of the log.

use super::definition::{area, reasons};

/// Headers of one answer at most.
pub const HEADERS_MAX: u64 = 128;

area! {
    /// Asks for the headers of a range, at most [`HEADERS_MAX`].
    RequestHeaders {
        /// Comes back in the answer.
        nonce: u128 = 128,
        /// The lowest op wanted.
        op_min: u64 = 144,
        /// The highest op wanted.
        op_max: u64 = 152,
    }
}

area! {
    /// The headers of a range that the author has; in the body, descending by op.
    Headers {
        /// From the [`RequestHeaders`].
        nonce: u128 = 128,
        /// Headers in the body.
        count: u32 = 144,
    }
}

area! {
    /// Asks for one prepare, or for a range of them. The answer is the prepares' own frames.
    RequestPrepare {
        /// Checksum of the prepare `op`; 0 for whatever was committed there.
        prepare_checksum: u128 = 128,
        /// The op wanted, or the first of the range.
        op: u64 = 144,
        /// The last op of the range; 0 for a single one.
        op_max: u64 = 152,
        /// Comes back in a refusal.
        nonce: u64 = 160,
    }
}

reasons! {
    /// Why a prepare is not served.
    NoPrepareReason {
        /// It lies behind a checkpoint and is gone.
        Evicted = 1,
        /// It was here and is damaged.
        Faulty = 2,
        /// It is not here, or another one is.
        Unknown = 3,
    }
}

area! {
    /// Refusal of a [`RequestPrepare`]. Says nothing about whether the prepare could be committed.
    NoPrepare {
        /// From the [`RequestPrepare`].
        prepare_checksum: u128 = 128,
        /// From the [`RequestPrepare`].
        op: u64 = 144,
        /// The lowest op that the author's log still holds.
        log_floor: u64 = 152,
        /// From the [`RequestPrepare`].
        nonce: u64 = 160,
        /// Why.
        reason: NoPrepareReason = 168,
    }
}
