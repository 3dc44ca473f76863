//! Transactional writes under crashes and losses of power at any moment, against a model of the catalogue.
//!
//! Everything follows from a seed, which a failure prints: `TRANSACTION_SEED=7` repeats one, `TRANSACTION_SEEDS=10000`
//! tries so many, from that one on.

mod catalogue;
mod checker;
mod run;

use self::run::Run;

/// Seeds that the suite tries.
const SEEDS: u64 = 600;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().expect("a number"))
}

/// What is committed is in the log once, in one piece and in order; what is not is not there at all.
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
