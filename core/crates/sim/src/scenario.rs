//! One run, written down: the same scenario always does the same.

use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::plan::{self, Planned};
use crate::random::Fates;

/// Everything that a run depends on, besides the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// The seed of all fates.
    pub seed: u64,
    /// The configuration, drawn from the seed and perhaps made simpler since.
    pub options: Options,
    /// The faults, planned from the seed and perhaps made fewer since.
    pub plan: Vec<Planned>,
}

impl Scenario {
    /// The run of a seed in which views meet damage: see [`Options::duel`].
    pub fn duel(seed: u64) -> Self {
        let fates = Fates::new(seed);
        let options = Options::duel(&fates);
        let plan = plan::from_seed(&fates, &options);
        Self {
            seed,
            options,
            plan,
        }
    }

    /// The run of a seed.
    pub fn from_seed(seed: u64) -> Self {
        let fates = Fates::new(seed);
        let options = Options::from_seed(&fates);
        let plan = plan::from_seed(&fates, &options);
        Self {
            seed,
            options,
            plan,
        }
    }
}
