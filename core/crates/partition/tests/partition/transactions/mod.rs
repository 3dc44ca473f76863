//! Transactional writes under crashes and losses of power at any moment, compared with a model of the catalog.
//!
//! A run is determined by its seed, which a failure prints: `TRANSACTION_SEED=7` repeats one run,
//! `TRANSACTION_SEEDS=10000` runs that many seeds, starting with that one.

mod catalog;
mod checker;
mod run;

use self::run::Run;

/// Number of seeds that the suite runs.
const SEEDS: u64 = 600;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().expect("a number"))
}

/// Committed messages are in the log once, in order and without gaps; others are not in the log at all.
#[test]
fn transactions_are_all_or_nothing() {
    let first = number("TRANSACTION_SEED");
    let count = number("TRANSACTION_SEEDS").unwrap_or(if first.is_some() { 1 } else { SEEDS });
    let first = first.unwrap_or(0);
    let seeds = first..first + count;
    for seed in seeds {
        let result = std::panic::catch_unwind(|| Run::new(seed).run());
        assert!(result.is_ok(), "see above, with TRANSACTION_SEED={seed}");
    }
}
