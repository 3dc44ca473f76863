//! Complete description of a run: the same scenario always has the same result.

mod data;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::plan::{self, Planned};
use crate::random::Fates;

/// Maximum number of calls of all clients together, in the phase with faults, if the state machine is a program.
const CALLS_OF_PROGRAMS: u32 = 900;

/// Coincidences on which the runs of a sweep concentrate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// A mix of everything.
    #[default]
    Plain,
    /// View changes coincide with damage.
    Duel,
    /// All nodes lose power at the same time, while they write.
    Power,
    /// Disks are replaced by empty ones.
    Replaced,
    /// Data directories are replaced by older copies.
    Restored,
    /// Processes crash before a sync, and the power fails before the next one.
    Killed,
}

/// Everything on which a run depends, besides the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// Seed of all fates.
    pub seed: u64,
    /// Configuration, drawn from the seed and possibly simplified afterwards.
    pub options: Options,
    /// Faults, planned from the seed and possibly reduced afterwards.
    pub plan: Vec<Planned>,
}

impl Scenario {
    /// Scenario of a seed in this profile.
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

    /// Scenario of a seed for data nodes.
    pub fn of_data_node(seed: u64) -> Self {
        let fates = Fates::new(seed);
        let options = Options::of_data_node(&fates);
        let plan = data::plan(fates, &options);
        Self {
            seed,
            options,
            plan,
        }
    }

    /// Scenario of a seed in the plain profile.
    pub fn from_seed(seed: u64) -> Self {
        Self::of(Profile::Plain, seed)
    }

    /// Reduce the number of calls: a program executes a hundred times fewer commands per second.
    #[must_use]
    pub fn for_programs(mut self) -> Self {
        let workload = &mut self.options.workload;
        workload.requests = workload
            .requests
            .min(CALLS_OF_PROGRAMS / u32::from(workload.clients));
        self
    }
}
