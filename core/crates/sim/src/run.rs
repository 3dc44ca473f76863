//! Execution of one scenario.

use headrace_vsr::rules::{Rules, Standard};

use crate::checker::Violation;
use crate::cluster::Cluster;
use crate::cluster::bare::Bare;
use crate::cluster::data::{Data, DataGroup};
use crate::cluster::group::{Group, Replicated};
use crate::cluster::host::Host;
use crate::machine::Machines;
use crate::mutants::{HostFault, Mutant};
use crate::scenario::Scenario;
use crate::tally::Tally;
use crate::trace::Trace;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Violation found by a checker.
    pub violation: Option<Violation>,
    /// Digest of all events.
    pub digest: u64,
    /// Event counts.
    pub tally: Tally,
}

/// Run a scenario with unmodified replicas.
pub fn run(scenario: &Scenario) -> Outcome {
    run_with(scenario, Standard, None, &Machines::Names, Trace::silent())
}

/// Run a scenario with the production host, optionally with a fault of the host.
pub fn run_host(scenario: &Scenario, misdeed: Option<HostFault>, trace: Trace) -> Outcome {
    let host = Host::new(scenario, misdeed);
    run_kind(scenario, host, Machines::Names, trace)
}

/// Run a scenario with the given rules, fault of the host, state machines, and trace.
pub fn run_with<R: Rules + Clone>(
    scenario: &Scenario,
    rules: R,
    misdeed: Option<HostFault>,
    machines: &Machines,
    trace: Trace,
) -> Outcome {
    let bare = Bare {
        rules,
        host_fault: misdeed,
    };
    run_kind(scenario, bare, machines.clone(), trace)
}

/// Run a scenario with a data node, optionally with a planted bug.
pub fn run_data(scenario: &Scenario, bug: Option<Mutant>, trace: Trace) -> Outcome {
    let group = DataGroup::new(scenario);
    Cluster::new(scenario.clone(), Data { bug }, group, trace).run()
}

fn run_kind<K: Replicated>(
    scenario: &Scenario,
    kind: K,
    machines: Machines,
    trace: Trace,
) -> Outcome {
    match Group::new(scenario, machines) {
        Ok(group) => Cluster::new(scenario.clone(), kind, group, trace).run(),
        Err(violation) => Outcome {
            violation: Some(violation),
            digest: 0,
            tally: Tally::default(),
        },
    }
}
