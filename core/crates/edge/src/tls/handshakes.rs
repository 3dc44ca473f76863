//! Limits on the number and the duration of handshakes.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

use super::failures::Reason;

/// Time after which a handshake is aborted if others wait for its place.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which waiting handshakes request a place.
const KNOCK_INTERVAL: Duration = Duration::from_millis(100);

/// Places for the handshakes of one listener.
#[derive(Debug, Clone)]
pub(crate) struct Handshakes {
    places: Arc<Semaphore>,
    places_count: usize,
    /// Notified while a handshake waits for a place.
    crowded: Arc<Notify>,
    deadline: Duration,
}

impl Handshakes {
    pub(crate) fn new(places: usize, deadline: Duration) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places.max(1))),
            places_count: places.max(1),
            crowded: Arc::default(),
            deadline,
        }
    }

    /// Acquire a place. While none is free, handshakes slower than [`TIMEOUT`] are aborted.
    pub(crate) async fn place(&self) -> OwnedSemaphorePermit {
        loop {
            let place = Arc::clone(&self.places).acquire_owned();
            match timeout(KNOCK_INTERVAL, place).await {
                Ok(place) => return place.expect("never closed"),
                Err(_waited) => self.crowded.notify_waiters(),
            }
        }
    }

    /// Number of places.
    pub(crate) fn places_count(&self) -> usize {
        self.places_count
    }

    /// Return whether more than half of the places are taken.
    pub(crate) fn are_crowded(&self) -> bool {
        self.places.available_permits() < self.places_count / 2
    }

    /// Run a handshake until it ends, its deadline expires, or it is too slow for a crowded listener.
    pub(crate) async fn run<T>(
        &self,
        handshake: impl Future<Output = Result<T, Reason>>,
    ) -> Result<T, Reason> {
        let crowded_out = async {
            sleep(TIMEOUT.min(self.deadline)).await;
            self.crowded.notified().await;
        };
        tokio::select! {
            biased;
            result = handshake => result,
            () = sleep(self.deadline) => Err(Reason::timeout()),
            () = crowded_out => Err(Reason::crowded_out()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
    }

    /// Silent peers hold a place only briefly, not for the whole deadline, once another peer waits.
    #[test]
    fn the_silent_give_way_to_those_who_wait() {
        paused().block_on(async {
            let handshakes = Handshakes::new(1, Duration::from_secs(10));
            let place = handshakes.place().await;
            let other = handshakes.clone();
            let silent = tokio::spawn(async move {
                let _place = place;
                other
                    .run(std::future::pending::<Result<(), Reason>>())
                    .await
            });
            let began = tokio::time::Instant::now();
            let _place = handshakes.place().await;
            assert!(began.elapsed() < Duration::from_secs(3));
            assert_eq!(silent.await.unwrap(), Err(Reason::crowded_out()));
        });
    }

    #[test]
    fn without_a_crowd_the_deadline_counts() {
        paused().block_on(async {
            let handshakes = Handshakes::new(2, Duration::from_secs(10));
            let began = tokio::time::Instant::now();
            let result = handshakes
                .run(std::future::pending::<Result<(), Reason>>())
                .await;
            assert_eq!(result, Err(Reason::timeout()));
            assert_eq!(began.elapsed(), Duration::from_secs(10));
        });
    }
}
