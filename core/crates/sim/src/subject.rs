//! Subject of the command line: scenarios, planted bug, and state machines.

use std::io;
use std::rc::Rc;

use headrace_sim::machine::{Machines, Programs};
use headrace_sim::mutants::{Mutant, NodeKind, Planted};
use headrace_sim::run::{Outcome, run_data, run_host, run_with};
use headrace_sim::scenario::{Profile, Scenario};
use headrace_sim::trace::Trace;
use headrace_vsr::rules::Standard;

/// Selection of what is run.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    pub(crate) profile: Profile,
    pub(crate) kind: NodeKind,
    pub(crate) mutant: Option<Mutant>,
    pub(crate) state_machine: Option<String>,
}

impl Subject {
    pub(crate) fn scenario(&self, seed: u64) -> Scenario {
        if self.kind == NodeKind::Data {
            return Scenario::of_data_node(seed);
        }
        let scenario = Scenario::of(self.profile, seed);
        if self.state_machine.is_some() {
            scenario.for_programs()
        } else {
            scenario
        }
    }

    /// Start the programs, which belong to one thread.
    pub(crate) fn ready(&self) -> io::Result<Ready> {
        let machines = match &self.state_machine {
            None => Machines::Names,
            Some(command) => Machines::Programs(Rc::new(Programs::new(command)?)),
        };
        Ok(Ready {
            kind: self.kind,
            mutant: self.mutant,
            machines,
        })
    }
}

/// Subject with its running programs.
pub(crate) struct Ready {
    pub(crate) kind: NodeKind,
    pub(crate) mutant: Option<Mutant>,
    pub(crate) machines: Machines,
}

impl Ready {
    pub(crate) fn run(&self, scenario: &Scenario, trace: Trace) -> Outcome {
        let mutant = self.mutant;
        let misdeed = mutant.and_then(Mutant::misdeed);
        match (self.kind, mutant) {
            (NodeKind::Data, bug) => run_data(scenario, bug, trace),
            (NodeKind::Host, _) => run_host(scenario, misdeed, trace),
            (NodeKind::Core, None) => run_with(scenario, Standard, None, &self.machines, trace),
            (NodeKind::Core, Some(mutant)) => {
                run_with(scenario, Planted(mutant), misdeed, &self.machines, trace)
            }
        }
    }
}
