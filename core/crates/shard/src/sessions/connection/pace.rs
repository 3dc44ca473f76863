//! Pace of a session's requests, which quotas limit.

use headrace_catalog::{Catalog, Rates};
use headrace_model::{Timestamp, UserId};

/// Rates of a session's user, and the delay of its next request.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// User and version of the catalog that the rates are of.
    pub(crate) known: (Option<UserId>, u64),
    pub(crate) rates: Rates,
    /// Beginning and end of the delay.
    pub(crate) delay: Option<(Timestamp, Timestamp)>,
    /// True if too many connections of the user are delayed: this one is to be closed.
    pub(crate) is_surplus: bool,
}

impl Pace {
    /// Return whether the next request waits.
    #[inline]
    pub(crate) fn is_delayed(&self) -> bool {
        self.delay.is_some()
    }

    /// Return whether the connection is to be closed instead of being delayed.
    #[inline]
    pub(crate) fn is_surplus(&self) -> bool {
        self.is_surplus
    }

    /// Forget the delay: another shard has taken the connection.
    pub(crate) fn forget_delay(&mut self) {
        self.delay = None;
    }

    #[inline]
    pub(crate) fn look_up(&mut self, catalog: &Catalog, user: Option<UserId>) {
        let now = (user, catalog.version());
        if self.known != now {
            let found = user.and_then(|user| catalog.user_by_id(user));
            self.rates = found.map_or_else(Rates::default, |user| user.rates.clone());
            self.known = now;
        }
    }
}
