//! One run, written down: the same scenario always does the same.

use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::plan::{self, Planned};
use crate::random::Fates;

/// Calls of all clients together, in the phase with faults, when the state machine is a program.
const CALLS_OF_PROGRAMS: u32 = 900;

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

    /// The same with fewer calls: a program executes a hundred times fewer commands in a second.
    #[must_use]
    pub fn for_programs(mut self) -> Self {
        let workload = &mut self.options.workload;
        workload.requests = workload
            .requests
            .min(CALLS_OF_PROGRAMS / u32::from(workload.clients));
        self
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
