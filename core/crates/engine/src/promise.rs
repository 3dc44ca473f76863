//! A value that arrives later.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

type Listener = Box<dyn FnOnce() + Send>;

/// A value that one thread fulfils and others wait for, blocking or by a listener.
pub struct Promise<T> {
    state: Mutex<State<T>>,
    fulfilled: Condvar,
}

struct State<T> {
    value: Option<T>,
    listeners: Vec<Listener>,
}

impl<T> Default for Promise<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                value: None,
                listeners: Vec::new(),
            }),
            fulfilled: Condvar::new(),
        }
    }
}

impl<T> std::fmt::Debug for Promise<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_fulfilled = self.is_fulfilled();
        formatter
            .debug_struct("Promise")
            .field("is_fulfilled", &is_fulfilled)
            .finish_non_exhaustive()
    }
}

impl<T> Promise<T> {
    /// Set the value. Only the first one counts.
    pub fn fulfil(&self, value: T) {
        let mut state = self.lock();
        if state.value.is_some() {
            return;
        }
        state.value = Some(value);
        let listeners = std::mem::take(&mut state.listeners);
        drop(state);
        self.fulfilled.notify_all();
        for listener in listeners {
            listener();
        }
    }

    /// Return whether the value has arrived.
    pub fn is_fulfilled(&self) -> bool {
        self.lock().value.is_some()
    }

    /// Wait for the value, at most for `timeout`. Returns whether it has arrived.
    pub fn wait(&self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut state = self.lock();
        while state.value.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.fulfilled.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Call `listener` once the value has arrived, on the thread that fulfils it; at once if it has.
    pub fn on_fulfilled(&self, listener: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        if state.value.is_none() {
            return state.listeners.push(Box::new(listener));
        }
        drop(state);
        listener();
    }

    /// Take the value; later calls return `None`.
    pub fn take(&self) -> Option<T> {
        self.lock().value.take()
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Promise<T> {
    /// Return a copy of the value, if it has arrived.
    pub fn get(&self) -> Option<T> {
        self.lock().value.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn waits_and_listeners_end_with_the_first_value() {
        let promise = Arc::new(Promise::default());
        let heard = Arc::new(AtomicU32::new(0));
        let listener = Arc::clone(&heard);
        promise.on_fulfilled(move || {
            listener.fetch_add(1, Ordering::SeqCst);
        });
        assert!(!promise.wait(Duration::from_millis(1)));
        let other = Arc::clone(&promise);
        let thread = std::thread::spawn(move || other.fulfil(7));
        assert!(promise.wait(Duration::from_secs(10)));
        thread.join().expect("no panic");
        promise.fulfil(8);
        assert_eq!((promise.get(), heard.load(Ordering::SeqCst)), (Some(7), 1));
        let listener = Arc::clone(&heard);
        promise.on_fulfilled(move || {
            listener.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(heard.load(Ordering::SeqCst), 2);
    }
}
