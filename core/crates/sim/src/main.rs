//! The command line of the simulator.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use clap::{Parser, Subcommand};
use headrace_sim::mutants::{Mutant, Planted};
use headrace_sim::run::{Outcome, run_with};
use headrace_sim::scenario::Scenario;
use headrace_sim::shrink::shrink;
use headrace_sim::tally::Tally;
use headrace_sim::trace::Trace;
use headrace_vsr::rules::Standard;

/// Runs the replication core in virtual time, with faults, and judges what it does.
#[derive(Debug, Parser)]
#[command(name = "headrace-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs many seeds; prints the ones that fail, with a shrunk schedule.
    Run {
        /// Number of seeds.
        #[arg(long, default_value_t = 2_000)]
        runs: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Threads.
        #[arg(long, default_value_t = 1)]
        jobs: u64,
        /// The profile in which views meet damage.
        #[arg(long)]
        duel: bool,
        /// A planted bug.
        #[arg(long)]
        mutant: Option<Mutant>,
        /// Fails with code 3 when something never happened in all runs that should have.
        #[arg(long)]
        floors: bool,
        /// Failures after which no more seeds are tried.
        #[arg(long, default_value_t = 3)]
        failures: u64,
    },
    /// Repeats one run exactly.
    Replay {
        /// Its seed.
        #[arg(required_unless_present = "file")]
        seed: Option<u64>,
        /// A scenario that `shrink` has written.
        #[arg(long, conflicts_with = "seed")]
        file: Option<PathBuf>,
        /// The profile in which views meet damage.
        #[arg(long)]
        duel: bool,
        /// A planted bug.
        #[arg(long)]
        mutant: Option<Mutant>,
        /// Prints every event.
        #[arg(long)]
        trace: bool,
    },
    /// Looks for every planted bug.
    Mutants {
        /// Runs that each may take.
        #[arg(long, default_value_t = 20_000)]
        budget: u64,
        /// Only these.
        #[arg(long)]
        only: Vec<Mutant>,
    },
    /// Makes a failing run small.
    Shrink {
        /// Its seed.
        seed: u64,
        /// The profile in which views meet damage.
        #[arg(long)]
        duel: bool,
        /// A planted bug.
        #[arg(long)]
        mutant: Option<Mutant>,
        /// Where to write the smaller scenario.
        #[arg(long)]
        out: Option<PathBuf>,
        /// Runs that it may take.
        #[arg(long, default_value_t = 600)]
        runs: u32,
    },
}

fn main() -> ExitCode {
    match carry_out(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            // There is nowhere left to write to when this fails.
            let _ = writeln!(io::stderr(), "headrace-sim: {error}");
            ExitCode::from(2)
        }
    }
}

fn carry_out(command: Command) -> io::Result<ExitCode> {
    match command {
        Command::Run {
            runs,
            first,
            jobs,
            duel,
            mutant,
            floors,
            failures,
        } => Sweep {
            first,
            end: first + runs,
            duel,
            mutant,
            failures_max: failures,
        }
        .run(jobs, floors),
        Command::Replay {
            seed,
            file,
            duel,
            mutant,
            trace,
        } => {
            let scenario = match (seed, file) {
                (_, Some(file)) => {
                    serde_json::from_str(&fs::read_to_string(file)?).map_err(io::Error::other)?
                }
                (seed, None) => scenario_of(seed.unwrap_or_default(), duel),
            };
            replay(&scenario, mutant, trace)
        }
        Command::Mutants { budget, only } => mutants(budget, &only),
        Command::Shrink {
            seed,
            duel,
            mutant,
            out,
            runs,
        } => {
            let mut text = Vec::new();
            let scenario = scenario_of(seed, duel);
            let found = smaller(&mut text, &scenario, mutant, runs, out.as_ref())?;
            io::stdout().write_all(&text)?;
            Ok(if found {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            })
        }
    }
}

fn scenario_of(seed: u64, duel: bool) -> Scenario {
    if duel {
        Scenario::duel(seed)
    } else {
        Scenario::from_seed(seed)
    }
}

fn run(scenario: &Scenario, mutant: Option<Mutant>, trace: Trace) -> Outcome {
    match mutant {
        None => run_with(scenario, Standard, None, trace),
        Some(mutant) => run_with(scenario, Planted(mutant), mutant.misdeed(), trace),
    }
}

/// Many runs.
struct Sweep {
    first: u64,
    end: u64,
    duel: bool,
    mutant: Option<Mutant>,
    failures_max: u64,
}

impl Sweep {
    fn run(&self, jobs: u64, floors: bool) -> io::Result<ExitCode> {
        let (next, failed) = (AtomicU64::new(self.first), AtomicU64::new(0));
        let total = Mutex::new(Tally::default());
        thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs.max(1))
                .map(|_| scope.spawn(|| self.some(&next, &failed, &total)))
                .collect();
            workers.into_iter().try_for_each(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|_| Err(io::Error::other("a run panicked")))
            })
        })?;
        let total = total.into_inner().map_err(io::Error::other)?;
        let failed = failed.into_inner();
        let mut out = io::stdout().lock();
        for (name, many) in total.iter() {
            writeln!(out, "{many:>14}  {name}")?;
        }
        let first = self.first;
        writeln!(
            out,
            "{} seeds from {first}, {failed} failures",
            total.get("runs")
        )?;
        if failed > 0 {
            return Ok(ExitCode::FAILURE);
        }
        let missing: Vec<_> = FLOORS
            .iter()
            .filter(|name| floors && total.get(name) == 0)
            .collect();
        if !missing.is_empty() {
            writeln!(out, "never happened: {missing:?}")?;
            return Ok(ExitCode::from(3));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Runs seeds until there are no more, or enough have failed.
    fn some(&self, next: &AtomicU64, failed: &AtomicU64, total: &Mutex<Tally>) -> io::Result<()> {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end || failed.load(Ordering::Relaxed) >= self.failures_max {
                break;
            }
            let scenario = scenario_of(seed, self.duel);
            let outcome = run(&scenario, self.mutant, Trace::silent());
            tally.merge(&outcome.tally);
            if let Some(violation) = outcome.violation {
                failed.fetch_add(1, Ordering::Relaxed);
                let mut text = Vec::new();
                writeln!(text, "seed {seed} fails: {violation}")?;
                smaller(&mut text, &scenario, self.mutant, 150, None)?;
                io::stdout().lock().write_all(&text)?;
            }
        }
        total
            .lock()
            .map_err(|_| io::Error::other("a run panicked"))?
            .merge(&tally);
        Ok(())
    }
}

/// What must have happened in a sweep, or it shows less than it seems to.
const FLOORS: [&str; 22] = [
    "operations committed",
    "operations of several commands",
    "reads answered",
    "views",
    "crashes",
    "crashes inside a step",
    "crashes during disk requests",
    "power losses",
    "failed syncs",
    "appends without space",
    "records damaged",
    "damaged records noticed",
    "superblock copies damaged",
    "checkpoints",
    "state transfers",
    "journal files removed",
    "logs cut",
    "headers repaired",
    "bodies repaired",
    "repeated requests",
    "abdications",
    "frames rejected as damaged",
];

fn replay(scenario: &Scenario, mutant: Option<Mutant>, trace: bool) -> io::Result<ExitCode> {
    let lines = if trace {
        Trace::lines(|line| {
            // A reader that has seen enough ends the output, not the run.
            let _ = writeln!(io::stdout(), "{line}");
        })
    } else {
        Trace::silent()
    };
    let outcome = run(scenario, mutant, lines);
    let mut out = io::stdout().lock();
    for (name, many) in outcome.tally.iter() {
        writeln!(out, "{many:>14}  {name}")?;
    }
    writeln!(out, "seed {}: trace {:016x}", scenario.seed, outcome.digest)?;
    match outcome.violation {
        Some(violation) => {
            writeln!(out, "fails: {violation}")?;
            Ok(ExitCode::FAILURE)
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

fn mutants(budget: u64, only: &[Mutant]) -> io::Result<ExitCode> {
    let mut missed = 0;
    let mut out = io::stdout().lock();
    for mutant in Mutant::all()
        .iter()
        .filter(|mutant| only.is_empty() || only.contains(mutant))
    {
        // Both profiles in turn: some bugs need many operations, others many views.
        let found = (0..budget).find_map(|count| {
            let scenario = scenario_of(count / 2, count % 2 == 1);
            let violation = run(&scenario, Some(*mutant), Trace::silent()).violation?;
            // What fails without the bug as well says nothing about it.
            let clean = run(&scenario, None, Trace::silent()).violation.is_none();
            clean.then_some((count, violation))
        });
        if let Some((count, violation)) = found {
            writeln!(
                out,
                "{mutant:?}: found after {} runs, {:?}",
                count + 1,
                violation.check
            )?;
        } else {
            missed += 1;
            writeln!(out, "{mutant:?}: not found in {budget} runs")?;
        }
        out.flush()?;
    }
    Ok(if missed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Shrinks a failing run and describes what is left. Returns whether it fails at all.
fn smaller(
    out: &mut impl Write,
    scenario: &Scenario,
    mutant: Option<Mutant>,
    runs: u32,
    file: Option<&PathBuf>,
) -> io::Result<bool> {
    let Some(shrunk) = shrink(scenario, runs, |scenario| {
        run(scenario, mutant, Trace::silent())
    }) else {
        writeln!(out, "seed {} does not fail", scenario.seed)?;
        return Ok(false);
    };
    if let Some(violation) = &shrunk.outcome.violation {
        writeln!(
            out,
            "  shrunk in {} runs from {} faults to {}: {violation}",
            shrunk.runs,
            scenario.plan.len(),
            shrunk.scenario.plan.len()
        )?;
    }
    for planned in &shrunk.scenario.plan {
        writeln!(
            out,
            "  {:>9} ms {:?}",
            planned.at_ns / 1_000_000,
            planned.fault
        )?;
    }
    let json = serde_json::to_string_pretty(&shrunk.scenario).map_err(io::Error::other)?;
    if let Some(file) = file {
        fs::write(file, json)?;
        writeln!(out, "  written to {}", file.display())?;
    }
    Ok(true)
}
