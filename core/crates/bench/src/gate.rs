//! Barrier between actors, so that all of them start at the same moment.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Interval at which the coordinator checks for a stop while waiting.
const LOOK_UP_EVERY: Duration = Duration::from_millis(20);

/// A barrier that all actors pass once per phase; it can be aborted.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    opened: u32,
    finished: usize,
    given_up: bool,
}

impl Gate {
    /// Arrive, and wait until the gate has been opened `phase` times. False: the run is aborted.
    pub(crate) fn pass(&self, phase: u32) -> bool {
        let mut state = self.lock();
        state.arrived += 1;
        self.changed.notify_all();
        while state.opened < phase && !state.given_up {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        !state.given_up
    }

    /// Wait until `actors` have arrived, call `prepare` and open the gate. False: the run is aborted, which
    /// `keep_waiting` decides every 20 ms.
    pub(crate) fn open_for(
        &self,
        actors: usize,
        keep_waiting: impl Fn() -> bool,
        prepare: impl FnOnce(),
    ) -> bool {
        let mut state = self.lock();
        while state.arrived < actors && !state.given_up {
            if !keep_waiting() {
                state.given_up = true;
                break;
            }
            state = self.wait_a_little(state);
        }
        if !state.given_up {
            prepare();
            state.arrived = 0;
            state.opened += 1;
        }
        self.changed.notify_all();
        !state.given_up
    }

    /// Abort: all waiting and later actors are refused.
    pub(crate) fn give_up(&self) {
        self.lock().given_up = true;
        self.changed.notify_all();
    }

    /// Create a guard that counts the actor as done when dropped, whatever the outcome. A panic of the actor aborts the
    /// run, since the others would wait for it.
    pub(crate) fn finish_on_drop(&self) -> Finish<'_> {
        Finish(self)
    }

    /// Wait until `actors` are done; `look_up` is called every 20 ms.
    pub(crate) fn wait_finished(&self, actors: usize, mut look_up: impl FnMut()) {
        let mut state = self.lock();
        while state.finished < actors {
            state = self.wait_a_little(state);
            look_up();
        }
    }

    fn wait_a_little<'g>(&self, state: MutexGuard<'g, State>) -> MutexGuard<'g, State> {
        self.changed
            .wait_timeout(state, LOOK_UP_EVERY)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard that counts an actor as done.
#[derive(Debug)]
pub(crate) struct Finish<'g>(&'g Gate);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.finished += 1;
        state.given_up |= thread::panicking();
        drop(state);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn no_thread_starts_before_all_have_arrived() {
        let gate = Gate::default();
        let started = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let _finish = gate.finish_on_drop();
                    for phase in 1..=2 {
                        assert!(gate.pass(phase));
                        started.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            for phase in 0..2 {
                let opened = gate.open_for(
                    4,
                    || true,
                    || assert_eq!(started.load(Ordering::SeqCst), phase * 4),
                );
                assert!(opened);
            }
            gate.wait_finished(4, || ());
        });
        assert_eq!(started.into_inner(), 8);
    }

    #[test]
    fn giving_up_releases_all_threads() {
        let gate = Gate::default();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.pass(1));
            assert!(!gate.open_for(2, || false, || panic!("must not open")));
            assert!(!waiting.join().expect("no panic"));
        });
        assert!(!gate.pass(2));
    }
}
