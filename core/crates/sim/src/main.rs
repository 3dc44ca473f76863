//! Command line of the simulator.

#![allow(
    clippy::disallowed_methods,
    reason = "how long a sweep takes goes by the clock, what happens in it does not"
)]

mod subject;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand, ValueEnum};
use headrace_sim::machine::Machines;
use headrace_sim::mutants::{Mutant, NodeKind};
use headrace_sim::scenario::{Profile, Scenario};
use headrace_sim::shrink::shrink;
use headrace_sim::tally::Tally;
use headrace_sim::trace::Trace;
use subject::{Ready, Subject};

/// Run the replication core in virtual time, with faults, and check its behaviour.
#[derive(Debug, Parser)]
#[command(name = "headrace-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run many seeds and print the failing ones, with a minimized schedule.
    Run {
        /// Number of seeds.
        #[arg(long, default_value_t = 2_000)]
        runs: u64,
        /// First seed.
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Duration after which no more seeds are started, instead of a number of seeds.
        #[arg(long, value_name = "SECONDS", conflicts_with = "runs")]
        seconds: Option<u64>,
        /// Number of threads.
        #[arg(long, default_value_t = 1)]
        jobs: u64,
        /// Profile of the runs.
        #[arg(long, value_enum, default_value_t)]
        profile: Profile,
        /// Planted bug.
        #[arg(long)]
        mutant: Option<Mutant>,
        /// Fail with code 3 if an expected kind of event has not occurred in any run.
        #[arg(long)]
        floors: bool,
        /// Number of failures after which no more seeds are tried.
        #[arg(long, default_value_t = 3)]
        failures: u64,
        /// Succeed if and only if a seed fails: the program has a bug on purpose.
        #[arg(long)]
        expect_failure: bool,
        /// Command line of a program that is the state machine of each replica, instead of the simulator's own.
        #[arg(long, value_name = "COMMAND", conflicts_with_all = ["host", "data"])]
        state_machine: Option<String>,
        #[command(flatten)]
        nodes: Nodes,
    },
    /// Repeat one run exactly.
    Replay {
        /// Seed of the run.
        #[arg(required_unless_present = "file")]
        seed: Option<u64>,
        /// Scenario written by `shrink`.
        #[arg(long, conflicts_with = "seed")]
        file: Option<PathBuf>,
        /// Profile of the runs.
        #[arg(long, value_enum, default_value_t)]
        profile: Profile,
        /// Planted bug.
        #[arg(long)]
        mutant: Option<Mutant>,
        /// Print every event.
        #[arg(long)]
        trace: bool,
        /// Command line of a program that is the state machine of each replica, instead of the simulator's own.
        #[arg(long, value_name = "COMMAND", conflicts_with_all = ["host", "data"])]
        state_machine: Option<String>,
        #[command(flatten)]
        nodes: Nodes,
    },
    /// Search for every planted bug.
    Mutants {
        /// Maximum number of runs for each bug.
        #[arg(long, default_value_t = 20_000)]
        budget: u64,
        /// First seed.
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Planted bugs to search for; all by default.
        #[arg(long)]
        only: Vec<Mutant>,
        /// Number of planted bugs to search for, selected by the first seed.
        #[arg(long, value_name = "COUNT", conflicts_with = "only")]
        some: Option<usize>,
        #[command(flatten)]
        nodes: Nodes,
    },
    /// Minimize a failing run.
    Shrink {
        /// Seed of the run.
        seed: u64,
        /// Profile of the runs.
        #[arg(long, value_enum, default_value_t)]
        profile: Profile,
        /// Planted bug.
        #[arg(long)]
        mutant: Option<Mutant>,
        /// File for the minimized scenario.
        #[arg(long)]
        out: Option<PathBuf>,
        /// Maximum number of runs.
        #[arg(long, default_value_t = 600)]
        runs: u32,
        /// Command line of a program that is the state machine of each replica, instead of the simulator's own.
        #[arg(long, value_name = "COMMAND", conflicts_with_all = ["host", "data"])]
        state_machine: Option<String>,
        #[command(flatten)]
        nodes: Nodes,
    },
}

/// Kind of node.
#[derive(Clone, Copy, Debug, Args)]
struct Nodes {
    /// Use the production host instead of the simulator's own.
    #[arg(long)]
    host: bool,
    /// Use a data node instead of replicas.
    #[arg(long, conflicts_with = "host")]
    data: bool,
}

impl Nodes {
    const fn kind(self) -> NodeKind {
        match self {
            Self { data: true, .. } => NodeKind::Data,
            Self { host: true, .. } => NodeKind::Host,
            _ => NodeKind::Core,
        }
    }
}

fn main() -> ExitCode {
    match carry_out(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            // Ignored: a failure to write to stderr cannot be reported.
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
            seconds,
            jobs,
            profile,
            mutant,
            floors,
            failures,
            expect_failure,
            state_machine,
            nodes,
        } => Sweep {
            first,
            end: seconds.map_or(first.saturating_add(runs), |_| u64::MAX),
            until: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
            subject: Subject {
                profile,
                kind: nodes.kind(),
                mutant,
                state_machine,
            },
            failures_max: failures,
            expect_failure,
        }
        .run(jobs, floors),
        Command::Replay {
            seed,
            file,
            profile,
            mutant,
            trace,
            state_machine,
            nodes,
        } => {
            let subject = Subject {
                profile,
                kind: nodes.kind(),
                mutant,
                state_machine,
            };
            let scenario = match (seed, file) {
                (_, Some(file)) => {
                    serde_json::from_str(&fs::read_to_string(file)?).map_err(io::Error::other)?
                }
                (seed, None) => subject.scenario(seed.unwrap_or_default()),
            };
            replay(&subject.ready()?, &scenario, trace)
        }
        Command::Mutants {
            budget,
            first,
            only,
            some,
            nodes,
        } => {
            let mut wanted = Mutant::all(nodes.kind());
            wanted.retain(|mutant| only.is_empty() || only.contains(mutant));
            if let Some(some) = some {
                let begin = usize::try_from(first % wanted.len() as u64).unwrap_or_default();
                wanted.rotate_left(begin);
                wanted.truncate(some);
            }
            mutants(budget, first, nodes.kind(), &wanted)
        }
        Command::Shrink {
            seed,
            profile,
            mutant,
            out,
            runs,
            state_machine,
            nodes,
        } => {
            let mut text = Vec::new();
            let subject = Subject {
                profile,
                kind: nodes.kind(),
                mutant,
                state_machine,
            };
            let scenario = subject.scenario(seed);
            let found = smaller(&mut text, &subject.ready()?, &scenario, runs, out.as_ref())?;
            io::stdout().write_all(&text)?;
            Ok(if found {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            })
        }
    }
}

/// Parameters of a sweep over many seeds.
struct Sweep {
    first: u64,
    end: u64,
    /// Time after which no seed is started.
    until: Option<Instant>,
    subject: Subject,
    failures_max: u64,
    expect_failure: bool,
}

impl Sweep {
    fn run(&self, jobs: u64, floors: bool) -> io::Result<ExitCode> {
        let (next, failed) = (AtomicU64::new(self.first), AtomicU64::new(0));
        let total = Mutex::new(Tally::default());
        thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs.max(1))
                .map(|_| scope.spawn(|| self.run_seeds(&next, &failed, &total)))
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
        if (failed > 0) != self.expect_failure {
            return Ok(ExitCode::FAILURE);
        }
        let floors_of = match self.subject.kind {
            NodeKind::Core => &FLOORS[..],
            NodeKind::Host => &HOST_FLOORS[..],
            NodeKind::Data => &DATA_FLOORS[..],
        };
        let missing: Vec<_> = floors_of
            .iter()
            .filter(|name| floors && total.get(name) == 0)
            .collect();
        if !missing.is_empty() {
            writeln!(out, "never happened: {missing:?}")?;
            return Ok(ExitCode::from(3));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Run seeds until none is left or enough have failed.
    fn run_seeds(
        &self,
        next: &AtomicU64,
        failed: &AtomicU64,
        total: &Mutex<Tally>,
    ) -> io::Result<()> {
        let mut tally = Tally::default();
        let ready = self.subject.ready()?;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end
                || self.until.is_some_and(|until| Instant::now() >= until)
                || failed.load(Ordering::Relaxed) >= self.failures_max
            {
                break;
            }
            let scenario = self.subject.scenario(seed);
            let outcome = ready.run(&scenario, Trace::silent());
            tally.merge(&outcome.tally);
            if let Some(violation) = outcome.violation {
                failed.fetch_add(1, Ordering::Relaxed);
                let mut text = Vec::new();
                writeln!(text, "seed {seed} fails: {violation}")?;
                // An expected failure is not minimized.
                if !self.expect_failure {
                    smaller(&mut text, &ready, &scenario, 150, None)?;
                }
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

/// Events that a sweep must contain to be meaningful.
const FLOORS: [&str; 30] = [
    "operations committed",
    "operations of several commands",
    "reads answered",
    "views",
    "crashes",
    "crashes inside a step",
    "crashes during disk requests",
    "power losses",
    "power cuts of all",
    "disks replaced",
    "replicas back with a new disk",
    "group commits of several appends",
    "failed syncs",
    "appends without space",
    "records damaged",
    "damaged records noticed",
    "records read from elsewhere",
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
    "clock jumps",
    "releases put in force",
    "older releases refused",
];

/// Events that a sweep of the production host must contain. A full disk is missing: only one run in a hundred has one,
/// so `tests/host.rs` covers it.
const HOST_FLOORS: [&str; 38] = [
    "operations committed",
    "operations of several commands",
    "reads answered",
    "views",
    "crashes",
    "crashes amid sending",
    "crashes amid work on files",
    "crashes while opening",
    "crashes during disk requests",
    "clean ends",
    "power losses",
    "power cuts of all",
    "disks replaced",
    "replicas back with a new disk",
    "prepares that shared a sync",
    "journal files begun",
    "journal files removed",
    "seals",
    "failed syncs",
    "records damaged",
    "records repaired",
    "records read from elsewhere",
    "superblock copies damaged",
    "checkpoints",
    "states restored",
    "state transfers",
    "connections dialled",
    "connections broken",
    "connections refused",
    "segments sent again",
    "segments damaged on the way",
    "commands refused",
    "clock jumps",
    "pauses",
    "slow disks",
    "cuts of links",
    "upgrades",
    "older releases refused",
];

/// Events that a sweep of data nodes must contain.
const DATA_FLOORS: [&str; 20] = [
    "batches acknowledged",
    "messages read",
    "offsets stored",
    "stored offsets found",
    "flushes",
    "crashes",
    "crashes inside a turn",
    "crashes during operations on files",
    "power losses",
    "pauses",
    "slow disks",
    "syncs that failed",
    "operations that failed",
    "logs damaged",
    "indexes damaged",
    "stored offsets damaged",
    "manifests damaged",
    "reads refused because of damage",
    "connections that clients broke",
    "connections moved to another shard",
];

fn replay(ready: &Ready, scenario: &Scenario, trace: bool) -> io::Result<ExitCode> {
    let lines = if trace {
        Trace::lines(|line| {
            // A closed output, such as that of `head`, does not end the run.
            let _ = writeln!(io::stdout(), "{line}");
        })
    } else {
        Trace::silent()
    };
    let outcome = ready.run(scenario, lines);
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

fn mutants(budget: u64, first: u64, kind: NodeKind, wanted: &[Mutant]) -> io::Result<ExitCode> {
    let mut missed = 0;
    let mut out = io::stdout().lock();
    for mutant in wanted {
        // Alternates between the profiles: some bugs need many operations, others many views or power losses.
        let profiles = match kind {
            NodeKind::Data => &[Profile::Plain][..],
            NodeKind::Core | NodeKind::Host => Profile::value_variants(),
        };
        let found = (0..budget).find_map(|count| {
            let turn = count % profiles.len() as u64;
            let subject = Subject {
                profile: profiles[usize::try_from(turn).unwrap_or_default()],
                kind,
                ..Subject::default()
            };
            let scenario = subject.scenario(first.wrapping_add(count / profiles.len() as u64));
            let outcome = |mutant| {
                let machines = Machines::Names;
                Ready {
                    kind,
                    mutant,
                    machines,
                }
                .run(&scenario, Trace::silent())
            };
            let violation = outcome(Some(*mutant)).violation?;
            // A run that fails without the bug as well does not count.
            let clean = outcome(None).violation.is_none();
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

/// Minimize a failing run and describe the result. Returns whether the run fails at all.
fn smaller(
    out: &mut impl Write,
    ready: &Ready,
    scenario: &Scenario,
    runs: u32,
    file: Option<&PathBuf>,
) -> io::Result<bool> {
    let Some(shrunk) = shrink(scenario, runs, |scenario| {
        ready.run(scenario, Trace::silent())
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
