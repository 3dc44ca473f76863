//! The load generator as a program: measures a server of the binary protocol and prints the report as JSON.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use headrace_client::Transport;
use headrace_client::bench::null::{NullListener, NullOptions};
use headrace_client::bench::{
    self, Amount, AtEnd, BenchConfig, BenchReport, Cursor, GroupReport, Mode, Phase, Placement,
    Progress, Setup,
};

#[derive(Parser)]
#[command(about = "Measure a server of the Iggy binary protocol", version)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Producers only
    Produce(Options),
    /// Consumers only, reading existing messages
    Consume(Options),
    /// Producers and consumers at the same time
    Both(Options),
    /// A server that does nothing, as the baseline; prints its address and serves until it is killed
    NullListener(NullListenerOptions),
}

#[derive(Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent switches of a command line"
)]
struct Options {
    /// host:port of the server
    #[arg(long, default_value = "127.0.0.1:8090")]
    address: String,
    /// Send requests in the messages of a WebSocket
    #[arg(long)]
    websocket: bool,
    #[arg(long, default_value = "iggy")]
    username: String,
    #[arg(long, default_value = "iggy")]
    password: String,
    /// Measure a null listener, started for this run in a process of its own, in place of the server
    #[arg(long)]
    null: bool,
    #[arg(long, default_value_t = 1)]
    producers: u32,
    #[arg(long, default_value_t = 1)]
    consumers: u32,
    #[arg(long, default_value = "bench")]
    stream: String,
    #[arg(long, default_value = "bench")]
    topic: String,
    /// Partitions of a topic that has to be created; 0: one per actor
    #[arg(long, default_value_t = 0)]
    partitions: u32,
    #[arg(long, value_enum, default_value_t = SetupChoice::CreateMissing)]
    setup: SetupChoice,
    /// Delete the stream afterwards
    #[arg(long)]
    delete_afterwards: bool,
    /// Let the server choose the partition of each batch
    #[arg(long)]
    balanced: bool,
    /// Payload bytes of one message
    #[arg(long, default_value_t = 1000)]
    message_size: u32,
    #[arg(long, default_value_t = 1000)]
    messages_per_batch: u32,
    /// Messages of one poll; 0: as many as there are in a batch
    #[arg(long, default_value_t = 0)]
    messages_per_poll: u32,
    #[command(flatten)]
    amount: AmountOptions,
    /// Batches of one producer in flight at the same time
    #[arg(long, default_value_t = 1)]
    window: u32,
    /// Seconds of warm-up, which is not counted
    #[arg(long, default_value_t = 0.0)]
    warm_up: f64,
    /// Payload bytes per second of all producers together
    #[arg(long)]
    rate_limit: Option<u64>,
    /// Let the server store the consumers' offsets
    #[arg(long)]
    server_cursor: bool,
    /// Stop consumers at the end of their partition instead of starting again
    #[arg(long)]
    stop_at_end: bool,
    /// Check offsets and checksums of consumed messages
    #[arg(long)]
    verify: bool,
    /// Leave Nagle's algorithm on
    #[arg(long)]
    nagle: bool,
    /// Write the header of large frames separately, as the official client does
    #[arg(long)]
    header_first: bool,
    /// Report the CPU time of this process; may be repeated for the total of several
    #[arg(long)]
    server_pid: Vec<u32>,
    /// Show the report as text instead of JSON
    #[arg(long)]
    text: bool,
}

#[derive(Args)]
#[group(multiple = false)]
struct AmountOptions {
    /// Batches of each actor [default: 1000]
    #[arg(long)]
    batches: Option<u64>,
    /// Payload bytes of all producers, and of all consumers, together
    #[arg(long)]
    bytes: Option<u64>,
    /// Seconds
    #[arg(long)]
    seconds: Option<f64>,
}

#[derive(Args)]
struct NullListenerOptions {
    #[arg(long, default_value = "127.0.0.1:0")]
    address: String,
    /// Payload bytes of one polled message
    #[arg(long, default_value_t = 1000)]
    message_size: u32,
    /// Maximum number of messages of one poll
    #[arg(long, default_value_t = 1000)]
    messages: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum SetupChoice {
    CreateMissing,
    Recreate,
    Existing,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Task::Produce(options) => measure(Mode::Produce, options),
        Task::Consume(options) => measure(Mode::Consume, options),
        Task::Both(options) => measure(Mode::Both, options),
        Task::NullListener(options) => listen(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // If even this cannot be written, there is no way left to report it.
            let _ = writeln!(io::stderr(), "headrace-bench: {}", chain(failure.as_ref()));
            ExitCode::FAILURE
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn measure(mode: Mode, options: Options) -> Result<(), Failure> {
    let (text, null) = (options.text, options.null);
    let mut config = config(mode, options);
    let child = null.then(|| NullProcess::start(&config)).transpose()?;
    if let Some(child) = &child {
        config.address.clone_from(&child.address);
        config.server_pids = vec![child.process.id()];
    }

    let progress = Arc::new(Progress::default());
    let watcher = thread::spawn({
        let progress = Arc::clone(&progress);
        move || watch(&progress)
    });
    let report = bench::run(config, &progress);
    // The watcher ends after the last phase; its failure to write does not fail the run.
    let _ = watcher.join();
    let report = report?;

    let mut out = io::stdout().lock();
    if text {
        write_text(&mut out, &report)?;
    } else {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    }
    Ok(())
}

fn config(mode: Mode, options: Options) -> BenchConfig {
    BenchConfig {
        address: options.address,
        transport: if options.websocket {
            Transport::WebSocket
        } else {
            Transport::Tcp
        },
        username: options.username,
        password: options.password,
        mode,
        producers: options.producers,
        consumers: options.consumers,
        stream: options.stream,
        topic: options.topic,
        partitions: options.partitions,
        setup: match options.setup {
            SetupChoice::CreateMissing => Setup::CreateMissing,
            SetupChoice::Recreate => Setup::Recreate,
            SetupChoice::Existing => Setup::Existing,
        },
        delete_afterwards: options.delete_afterwards,
        placement: if options.balanced {
            Placement::Balanced
        } else {
            Placement::Pinned
        },
        message_size_bytes: options.message_size,
        messages_per_batch: options.messages_per_batch,
        messages_per_poll: options.messages_per_poll,
        amount: match options.amount {
            AmountOptions {
                bytes: Some(bytes), ..
            } => Amount::Bytes(bytes),
            AmountOptions {
                seconds: Some(seconds),
                ..
            } => Amount::Seconds(seconds),
            AmountOptions { batches, .. } => Amount::Batches(batches.unwrap_or(1000)),
        },
        window: options.window,
        warm_up_seconds: options.warm_up,
        rate_limit_bytes_per_second: options.rate_limit,
        cursor: if options.server_cursor {
            Cursor::Server
        } else {
            Cursor::Client
        },
        at_end: if options.stop_at_end {
            AtEnd::Stop
        } else {
            AtEnd::Rewind
        },
        verify: options.verify,
        no_delay: !options.nagle,
        header_first: options.header_first,
        server_pids: options.server_pid,
        ..BenchConfig::default()
    }
}

fn listen(options: &NullListenerOptions) -> Result<(), Failure> {
    let listener = NullListener::bind(
        &options.address,
        &NullOptions {
            message_size_bytes: options.message_size,
            messages_count_max: options.messages,
            ..NullOptions::default()
        },
    )?;
    writeln!(io::stdout(), "{}", listener.local_address()?)?;
    Ok(listener.serve()?)
}

/// A null listener in a process of its own, killed on drop.
struct NullProcess {
    process: Child,
    address: String,
}

impl NullProcess {
    fn start(config: &BenchConfig) -> Result<Self, Failure> {
        let messages = match config.messages_per_poll {
            0 => config.messages_per_batch,
            count => count,
        };
        let mut process = Command::new(std::env::current_exe()?)
            .arg("null-listener")
            .args(["--message-size", &config.message_size_bytes.to_string()])
            .args(["--messages", &messages.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut address)?;
        }
        Ok(Self {
            process,
            address: address.trim_end().to_owned(),
        })
    }
}

impl Drop for NullProcess {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Write a line per second until the run is done.
fn watch(progress: &Progress) -> io::Result<()> {
    let mut ticks = 0_u32;
    loop {
        thread::sleep(Duration::from_millis(100));
        ticks += 1;
        let now = progress.snapshot();
        if now.phase == Phase::Finished {
            return Ok(());
        }
        if ticks.is_multiple_of(10) && now.phase == Phase::Measuring {
            writeln!(
                io::stderr(),
                "produced {} MB, consumed {} MB",
                now.produced_bytes / 1_000_000,
                now.consumed_bytes / 1_000_000
            )?;
        }
    }
}

fn write_text(out: &mut impl Write, report: &BenchReport) -> io::Result<()> {
    for (name, group) in [
        ("producers", &report.producers),
        ("consumers", &report.consumers),
    ] {
        if let Some(group) = group {
            write_group(out, name, group)?;
        }
    }
    for (name, cpu) in [
        ("server", &report.server_cpu),
        ("load generator", &report.client_cpu),
    ] {
        if let Some(cpu) = cpu {
            writeln!(
                out,
                "{name}: {:.2} CPU s ({:.2} user, {:.2} system), {:.2} cores, {:.3} CPU s/GB",
                cpu.total_seconds,
                cpu.user_seconds,
                cpu.system_seconds,
                cpu.cores,
                cpu.seconds_per_gb.unwrap_or(0.0)
            )?;
        }
    }
    Ok(())
}

fn write_group(out: &mut impl Write, name: &str, group: &GroupReport) -> io::Result<()> {
    writeln!(
        out,
        "{name}: {} requests, {:.3} s, {:.1} MB/s, {:.0} messages/s (sum of actors {:.1} MB/s), {} empty polls",
        group.requests,
        group.wall_seconds,
        group.payload_mb_per_second,
        group.messages_per_second,
        group.sum_of_actors_mb_per_second,
        group.empty_polls
    )?;
    let mut latencies = vec![("latency", group.latency)];
    latencies.extend(group.latency_from_due.map(|latency| ("from due", latency)));
    for (name, latency) in latencies {
        writeln!(
            out,
            "  {name} us: mean {:.1}, p50 {:.1}, p90 {:.1}, p95 {:.1}, p99 {:.1}, p99.9 {:.1}, p99.99 {:.1}, max {:.1}",
            latency.mean_micros,
            latency.p50_micros,
            latency.p90_micros,
            latency.p95_micros,
            latency.p99_micros,
            latency.p99_9_micros,
            latency.p99_99_micros,
            latency.max_micros
        )?;
    }
    Ok(())
}

/// Format an error with its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
