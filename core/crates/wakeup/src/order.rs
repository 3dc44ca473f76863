//! Order of the steps of a wake-up, on which its correctness depends.

/// Flag, and signal that lasts until it is silenced.
pub(crate) trait WakeupSignal {
    /// Set the flag; returns its previous value.
    fn set_flag(&self) -> bool;
    fn clear_flag(&self);
    fn signal(&self);
    fn silence(&self);
}

pub(crate) fn wake(bell: &impl WakeupSignal) {
    if !bell.set_flag() {
        bell.signal();
    }
}

/// Silence the signal, clear the flag, look for items. A waker that finds the flag still set stored its item before the
/// flag is cleared, and `look` sees the item. A waker that finds the flag cleared signals, and that signal is not
/// silenced any more. In any other order a wake-up can be lost: the flag stays set without a signal, and no waker ever
/// signals again.
pub(crate) fn take<R>(bell: &impl WakeupSignal, look: impl FnOnce() -> R) -> R {
    bell.silence();
    bell.clear_flag();
    look()
}

#[cfg(test)]
mod tests;
