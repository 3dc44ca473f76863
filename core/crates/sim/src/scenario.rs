//! One run, written down: the same scenario always does the same.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::plan::{self, Planned};
use crate::random::Fates;

/// Calls of all clients together, in the phase with faults, when the state machine is a program.
const CALLS_OF_PROGRAMS: u32 = 900;

/// The coincidences that the runs of a sweep are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// A bit of everything.
    #[default]
    Plain,
    /// Views meet damage.
    Duel,
    /// All nodes hang on one power cord, and the cord is pulled while they write.
    Power,
    /// Disks are replaced by empty ones.
    Replaced,
    /// Folders are replaced by older copies of themselves.
    Restored,
    /// Processes die before a sync, and the power goes before the next one.
    Killed,
}

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
    /// The run of a seed in this profile.
    pub fn of(profile: Profile, seed: u64) -> Self {
        let fates = Fates::new(seed);
        let options = match profile {
            Profile::Plain => Options::from_seed(&fates),
            Profile::Duel => Options::duel(&fates),
            Profile::Power => Options::power(&fates),
            Profile::Replaced => Options::replaced(&fates),
            Profile::Restored => Options::restored(&fates),
            Profile::Killed => Options::killed(&fates),
        };
        let plan = match profile {
            Profile::Plain | Profile::Duel => plan::from_seed(&fates, &options),
            Profile::Power => plan::power_cuts(&fates, &options),
            Profile::Replaced => plan::replacements(&fates, &options),
            Profile::Restored => plan::restorations(&fates, &options),
            Profile::Killed => plan::kills(&fates, &options),
        };
        Self {
            seed,
            options,
            plan,
        }
    }

    /// The run of a seed.
    pub fn from_seed(seed: u64) -> Self {
        Self::of(Profile::Plain, seed)
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
}
