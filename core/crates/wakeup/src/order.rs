//! The order of the steps, which is all that there is to get wrong.

/// A flag, and a signal that lasts until it is silenced.
pub(crate) trait Bell {
    /// Set the flag; whether it was set before.
    fn set_flag(&self) -> bool;
    fn clear_flag(&self);
    fn signal(&self);
    fn silence(&self);
}

pub(crate) fn wake(bell: &impl Bell) {
    if !bell.set_flag() {
        bell.signal();
    }
}

/// Silence, clear, look. Whoever finds the flag still set was here before it is cleared, and what it left is seen.
/// Whoever finds it cleared signals, and nobody silences that any more. In any other order a wake-up can be lost: the
/// flag stays set without a signal, and nobody signals ever again.
pub(crate) fn take<R>(bell: &impl Bell, look: impl FnOnce() -> R) -> R {
    bell.silence();
    bell.clear_flag();
    look()
}

#[cfg(test)]
mod tests;
