//! Limits of data in transit through the QUIC listener: bytes and time.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum size of requests that a connection buffers concurrently; larger ones are buffered one at a time.
pub(super) const SMALL_REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of requests before authentication.
pub(super) const UNAUTHENTICATED_REQUEST_BYTES_MAX: usize = 4 * 1024;
/// Size of the pieces in which an answer is passed on.
pub(super) const PIECE_BYTES: usize = 64 * 1024;
/// Bytes reserved for every connection in each direction, independent of the others.
const OWN_BYTES: usize = 512 * 1024;
/// Bytes that all connections together may borrow beyond the reserved ones.
const SHARED_BYTES: usize = 64 * 1024 * 1024;
/// Unit in which large requests are counted.
const LARGE_UNIT_BYTES: usize = 1024;

/// Minimum time that a peer has for any transfer.
const GRACE: Duration = Duration::from_secs(20);
/// Minimum rate of a transfer, which extends the time for larger ones.
const BYTES_PER_SECOND_MIN: u64 = 128 * 1024;

/// Time that a peer has to send or to receive this number of bytes.
pub(super) fn time_limit(bytes: usize) -> Duration {
    GRACE + Duration::from_secs(bytes as u64 / BYTES_PER_SECOND_MIN)
}

/// Budget shared by the connections of a listener.
#[derive(Debug, Clone)]
pub(super) struct SharedBudget {
    bytes: Arc<Semaphore>,
    large_units: Arc<Semaphore>,
}

impl SharedBudget {
    /// Create a budget for two concurrent requests of the largest size, or more smaller ones.
    pub(super) fn new(request_bytes_max: usize) -> Self {
        let large_bytes = request_bytes_max.max(SHARED_BYTES / 2) * 2;
        Self {
            bytes: Arc::new(Semaphore::new(SHARED_BYTES)),
            large_units: Arc::new(Semaphore::new(units(large_bytes))),
        }
    }

    /// Create a budget without shared bytes.
    #[cfg(test)]
    pub(super) fn without_loans() -> Self {
        Self {
            bytes: Arc::new(Semaphore::new(0)),
            large_units: Arc::new(Semaphore::new(0)),
        }
    }

    /// Create the budget of one connection.
    pub(super) fn connection(&self) -> Budget {
        let direction = || Direction {
            own: Arc::new(Semaphore::new(OWN_BYTES)),
            shared: Arc::clone(&self.bytes),
        };
        Budget {
            requests: direction(),
            answers: direction(),
            large_turn: Arc::new(Semaphore::new(1)),
            large_units: Arc::clone(&self.large_units),
        }
    }
}

/// Budget of one connection.
#[derive(Debug)]
pub(super) struct Budget {
    requests: Direction,
    answers: Direction,
    large_turn: Arc<Semaphore>,
    large_units: Arc<Semaphore>,
}

/// Reserved bytes, released on drop.
#[derive(Debug)]
pub(super) struct Room {
    _bytes: OwnedSemaphorePermit,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Budget {
    /// Reserve room for a request, waiting until there is some.
    pub(super) async fn request(&self, bytes: usize) -> Room {
        if bytes <= SMALL_REQUEST_BYTES_MAX {
            return self.requests.take(bytes).await;
        }
        let turn = acquire(&self.large_turn, 1).await;
        Room {
            _bytes: acquire(&self.large_units, units(bytes)).await,
            _turn: Some(turn),
        }
    }

    /// Reserve room for a piece of an answer, waiting until there is some.
    pub(super) async fn answer(&self, bytes: usize) -> Room {
        self.answers.take(bytes).await
    }
}

#[derive(Debug)]
struct Direction {
    own: Arc<Semaphore>,
    shared: Arc<Semaphore>,
}

impl Direction {
    async fn take(&self, bytes: usize) -> Room {
        let bytes = tokio::select! {
            biased;
            own = acquire(&self.own, bytes) => own,
            shared = acquire(&self.shared, bytes) => shared,
        };
        Room {
            _bytes: bytes,
            _turn: None,
        }
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(LARGE_UNIT_BYTES)
}

async fn acquire(semaphore: &Arc<Semaphore>, count: usize) -> OwnedSemaphorePermit {
    let count = u32::try_from(count).expect("requests and pieces are counted in 32 bits");
    let permit = Arc::clone(semaphore).acquire_many_owned(count).await;
    permit.expect("never closed")
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }

    /// A connection that has exhausted its budget does not reduce the reserve of the others.
    #[test]
    fn the_reserve_of_a_connection_is_its_own() {
        let shared = SharedBudget::new(1 << 20);
        let (greedy, modest) = (shared.connection(), shared.connection());
        let mut taken = Vec::new();
        while let Some(room) = now(greedy.answer(PIECE_BYTES)) {
            taken.push(room);
        }
        assert_eq!(taken.len() * PIECE_BYTES, OWN_BYTES + SHARED_BYTES);
        assert!(now(modest.answer(PIECE_BYTES)).is_some());
        // The two directions are independent: answers must flow for requests to be read.
        assert!(now(greedy.request(SMALL_REQUEST_BYTES_MAX)).is_some());
        taken.pop();
        assert!(now(greedy.answer(PIECE_BYTES)).is_some());
    }

    #[test]
    fn a_connection_has_one_large_request_at_a_time() {
        let shared = SharedBudget::new(1 << 20);
        let budget = shared.connection();
        let first = now(budget.request(SMALL_REQUEST_BYTES_MAX + 1)).unwrap();
        assert!(now(budget.request(SMALL_REQUEST_BYTES_MAX + 1)).is_none());
        assert!(now(budget.request(SMALL_REQUEST_BYTES_MAX)).is_some());
        assert!(now(shared.connection().request(1 << 20)).is_some());
        drop(first);
        assert!(now(budget.request(1 << 20)).is_some());
    }

    #[test]
    fn more_bytes_may_take_longer() {
        assert_eq!(time_limit(0), GRACE);
        assert_eq!(time_limit(64 << 20), GRACE + Duration::from_secs(512));
    }
}
