//! One run from its scenario to its judgement.

use headrace_vsr::rules::{Rules, Standard};

use crate::checker::Violation;
use crate::cluster::Cluster;
use crate::host::Host;
use crate::machine::Machines;
use crate::mutants::Misdeed;
use crate::scenario::Scenario;
use crate::tally::Tally;
use crate::trace::Trace;

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What a checker found.
    pub violation: Option<Violation>,
    /// Digest of all events.
    pub digest: u64,
    /// How often things happened.
    pub tally: Tally,
}

/// Runs a scenario with the replicas as they are.
pub fn run(scenario: &Scenario) -> Outcome {
    run_with(scenario, Standard, None, &Machines::Names, Trace::silent())
}

/// Runs a scenario with the production host, or with one that misbehaves.
pub fn run_host(scenario: &Scenario, misdeed: Option<Misdeed>, trace: Trace) -> Outcome {
    match Host::new(scenario.clone(), misdeed, trace) {
        Ok(host) => host.run(),
        Err(violation) => Outcome {
            violation: Some(violation),
            digest: 0,
            tally: Tally::default(),
        },
    }
}

/// Runs a scenario with the given rules, a host that misbehaves, state machines, and a trace.
pub fn run_with<R: Rules + Clone>(
    scenario: &Scenario,
    rules: R,
    misdeed: Option<Misdeed>,
    machines: &Machines,
    trace: Trace,
) -> Outcome {
    match Cluster::new(scenario.clone(), rules, misdeed, machines.clone(), trace) {
        Ok(cluster) => cluster.run(),
        Err(violation) => Outcome {
            violation: Some(violation),
            digest: 0,
            tally: Tally::default(),
        },
    }
}
