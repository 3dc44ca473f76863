//! Minimization of a failing run: fewer faults, fewer clients, better links, as long as the same checker fails.

use crate::checker::Check;
use crate::options::{MICROSECOND, MILLISECOND, Options, unstored_bytes};
use crate::plan::Planned;
use crate::run::Outcome;
use crate::scenario::Scenario;

/// Minimized failing run.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// Smallest scenario that still fails.
    pub scenario: Scenario,
    /// Outcome of that scenario.
    pub outcome: Outcome,
    /// Number of runs that were needed.
    pub runs: u32,
}

/// Minimize `scenario` with at most `runs_max` runs. `None` if it does not fail at all.
pub fn shrink(
    scenario: &Scenario,
    runs_max: u32,
    run: impl FnMut(&Scenario) -> Outcome,
) -> Option<Shrunk> {
    let mut search = Search {
        run,
        runs: 0,
        runs_max,
    };
    let outcome = search.run(scenario);
    let check = outcome.violation.as_ref()?.check;
    let mut best = (scenario.clone(), outcome);
    loop {
        let size = size_of(&best.0);
        search.faults(check, &mut best);
        search.options(check, &mut best);
        if size_of(&best.0) >= size || search.runs >= search.runs_max {
            return Some(Shrunk {
                scenario: best.0,
                outcome: best.1,
                runs: search.runs,
            });
        }
    }
}

fn size_of(scenario: &Scenario) -> (usize, u32, u64) {
    let workload = &scenario.options.workload;
    (
        scenario.plan.len(),
        u32::from(workload.clients) * workload.requests,
        scenario.options.safety_ns,
    )
}

struct Search<F> {
    run: F,
    runs: u32,
    runs_max: u32,
}

impl<F: FnMut(&Scenario) -> Outcome> Search<F> {
    fn run(&mut self, scenario: &Scenario) -> Outcome {
        self.runs += 1;
        (self.run)(scenario)
    }

    /// Adopt `candidate` if it fails the same check.
    fn attempt(
        &mut self,
        check: Check,
        best: &mut (Scenario, Outcome),
        candidate: Scenario,
    ) -> bool {
        if self.runs >= self.runs_max || candidate == best.0 {
            return false;
        }
        let outcome = self.run(&candidate);
        let fails = outcome
            .violation
            .as_ref()
            .is_some_and(|violation| violation.check == check);
        if fails {
            *best = (candidate, outcome);
        }
        fails
    }

    /// Remove faults: large parts of the plan first, smaller ones later.
    fn faults(&mut self, check: Check, best: &mut (Scenario, Outcome)) {
        let mut part = best.0.plan.len();
        while part > 0 {
            let mut at = 0;
            while at < best.0.plan.len() {
                let end = (at + part).min(best.0.plan.len());
                let plan: Vec<Planned> = best.0.plan[..at]
                    .iter()
                    .chain(&best.0.plan[end..])
                    .cloned()
                    .collect();
                if !self.attempt(
                    check,
                    best,
                    Scenario {
                        plan,
                        ..best.0.clone()
                    },
                ) {
                    at = end;
                }
            }
            part /= 2;
        }
    }

    fn options(&mut self, check: Check, best: &mut (Scenario, Outcome)) {
        for simpler in SIMPLER {
            // Halve as long as the run still fails.
            for _ in 0..8 {
                let mut options = best.0.options.clone();
                simpler(&mut options);
                let candidate = Scenario {
                    options,
                    ..best.0.clone()
                };
                if !self.attempt(check, best, candidate) {
                    break;
                }
            }
        }
        for link in 0..64_u32 {
            let replicas = u32::from(best.0.options.replicas);
            if link / 8 < replicas && link % 8 < replicas && link / 8 != link % 8 {
                let mut options = best.0.options.clone();
                options.network.perfect_links |= 1 << link;
                self.attempt(
                    check,
                    best,
                    Scenario {
                        options,
                        ..best.0.clone()
                    },
                );
            }
        }
    }
}

const SIMPLER: [fn(&mut Options); 21] = [
    |options| options.network.loss_ppm = 0,
    |options| options.network.duplicate_ppm = 0,
    |options| options.network.corrupt_ppm = 0,
    |options| options.network.fifo = true,
    |options| options.network.capacity = 4_096,
    |options| {
        options.network.delay_min_ns = 100 * MICROSECOND;
        options.network.delay_mean_ns = 100 * MICROSECOND;
    },
    |options| options.step_cost_ns = 0,
    |options| options.turn_ns = 0,
    |options| options.clock_skew_ppm = 0,
    |options| options.unstored_bytes = unstored_bytes(),
    |options| options.disk.append_mean_ns = options.disk.append_mean_ns.min(MILLISECOND),
    |options| options.disk.superblock_mean_ns = options.disk.superblock_mean_ns.min(MILLISECOND),
    |options| options.disk.read_mean_ns = options.disk.read_mean_ns.min(MILLISECOND),
    |options| options.workload.clients = (options.workload.clients / 2).max(1),
    |options| options.workload.requests = (options.workload.requests / 2).max(1),
    |options| options.workload.read_ppm = 0,
    |options| options.workload.repeat_ppm = 0,
    |options| options.workload.restart_ppm = 0,
    |options| options.workload.gap_ppm = 0,
    |options| options.workload.padding = 0,
    |options| options.safety_ns = options.safety_ns * 3 / 4,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::Violation;
    use crate::plan::Fault;
    use crate::tally::Tally;

    /// Model of a run that fails if two specific faults are planned and the network loses frames.
    fn imagined(scenario: &Scenario) -> Outcome {
        let pauses = scenario
            .plan
            .iter()
            .filter(|planned| matches!(planned.fault, Fault::Pause { for_ns: 5 | 33, .. }))
            .count();
        let fails = pauses == 2 && scenario.options.network.loss_ppm > 0;
        Outcome {
            violation: fails.then(|| Violation::new(Check::Agreement, "imagined")),
            digest: 0,
            tally: Tally::default(),
        }
    }

    fn scenario(loss_ppm: u32) -> Scenario {
        let mut scenario = Scenario::from_seed(1);
        scenario.options.network.loss_ppm = loss_ppm;
        scenario.plan = (0..40)
            .map(|at_ns| Planned {
                at_ns,
                fault: Fault::Pause {
                    replica: 0,
                    for_ns: at_ns,
                },
            })
            .collect();
        scenario
    }

    #[test]
    fn only_what_matters_is_left() {
        let shrunk = shrink(&scenario(1_000), 1_000, imagined).unwrap();
        assert_eq!(shrunk.scenario.plan.len(), 2);
        assert_eq!(shrunk.scenario.options.network.loss_ppm, 1_000);
        assert_eq!(shrunk.scenario.options.network.duplicate_ppm, 0);
        assert_eq!(shrunk.scenario.options.workload.clients, 1);
        assert_eq!(shrunk.outcome.violation.unwrap().check, Check::Agreement);
    }

    #[test]
    fn a_run_that_does_not_fail_has_no_smaller_failure() {
        assert!(shrink(&scenario(0), 1_000, imagined).is_none());
    }
}
