//! Execution of a run, from the first connection to the report.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use headrace_wire::batch::BatchBuilder;
use headrace_wire::message::HEADER_BYTES;

use crate::consumer::consume;
use crate::gate::Gate;
use crate::process_cpu::ProcessCpu;
use crate::producer::produce;
use crate::report::{ActorOutcome, CpuReport, GroupReport};
use crate::target::Target;
use crate::{BenchConfig, BenchReport, Phase, Progress};
use headrace_client::{Client, ClientError};

/// Time after a stop in which actors may still receive the answer they wait for.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// Longest sleep between two checks for a stop.
const NAP: Duration = Duration::from_millis(50);
/// Stack size of an actor, which needs little more than its buffers on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// Run the measurement. Blocks until the run is done or stopped by `progress`.
///
/// Fails with the first error of any actor; nothing is reported in that case, because the measurement is not the
/// requested one.
pub fn run(config: BenchConfig, progress: &Progress) -> Result<BenchReport, ClientError> {
    config.validate()?;
    progress.enter(Phase::Preparing);
    progress.expect_bytes(config.expected_bytes());
    let measured = measure(&config, progress);
    progress.enter(Phase::Finished);
    Ok(measured?.into_report(config, progress.is_stopped()))
}

fn measure(config: &BenchConfig, progress: &Progress) -> Result<Measured, ClientError> {
    // Read before any work, so that an invalid process id is reported at once.
    process_cpu(ProcessCpu::of_all(&config.server_pids))?;
    let mut administrator = administrate(config)?;
    let run = Run {
        config,
        progress,
        target: Target::prepare(&mut administrator, config)?,
        messages: Arc::new(prepare_messages(config)?),
        gate: Gate::default(),
        producers_left: AtomicU32::new(config.producers()),
        halted: AtomicBool::new(false),
        cut_off: AtomicBool::new(false),
        first_error: Mutex::new(None),
        sockets: Mutex::new(Vec::new()),
    };
    let measured = run.measure();
    if config.delete_afterwards {
        let deleted = administrator.delete_stream(run.target.stream());
        // The error of the run is more useful than that of the clean-up.
        let measured = measured?;
        deleted?;
        return Ok(measured);
    }
    measured
}

/// State shared by the threads of a run.
pub(crate) struct Run<'r> {
    pub(crate) config: &'r BenchConfig,
    pub(crate) progress: &'r Progress,
    pub(crate) target: Target,
    pub(crate) messages: Arc<BatchBuilder>,
    pub(crate) gate: Gate,
    producers_left: AtomicU32,
    /// True if an actor has failed: the others are to end.
    halted: AtomicBool,
    /// True if the sockets were shut down to end waits: errors are a consequence.
    cut_off: AtomicBool,
    first_error: Mutex<Option<ClientError>>,
    sockets: Mutex<Vec<TcpStream>>,
}

/// Conditions that end an actor's work; both may apply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) messages: Option<u64>,
    pub(crate) deadline: Option<Instant>,
}

impl Limits {
    /// Return whether to continue after `messages` at `now`.
    pub(crate) fn allow(&self, messages: u64, now: Instant) -> bool {
        self.messages.is_none_or(|limit| messages < limit)
            && self.deadline.is_none_or(|deadline| now < deadline)
    }

    /// Earlier of `instant` and the deadline.
    pub(crate) fn end_before(&self, instant: Instant) -> Instant {
        self.deadline
            .map_or(instant, |deadline| deadline.min(instant))
    }
}

/// CPU time of server and load generator at one moment.
struct CpuSample {
    at: Instant,
    server: Option<ProcessCpu>,
    client: ProcessCpu,
}

impl Run<'_> {
    /// First phase of the gate: all actors are connected.
    pub(crate) const WARM_UP: u32 = 1;
    /// Second phase of the gate: all actors have warmed up.
    pub(crate) const MEASURE: u32 = 2;

    /// Connect and log in.
    pub(crate) fn connect(&self) -> Result<Client, ClientError> {
        let client = connect(self.config)?;
        let socket = client
            .try_clone_socket()
            .map_err(|source| ClientError::System {
                action: "duplicate a socket",
                source,
            })?;
        self.sockets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(socket);
        Ok(client)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.progress.is_stopped() || self.halted.load(Ordering::Relaxed)
    }

    /// Return whether every producer has had its last batch acknowledged.
    pub(crate) fn producers_are_done(&self) -> bool {
        // Acquire: pairs with the release of the last producer, so a later poll sees its batches.
        self.producers_left.load(Ordering::Acquire) == 0
    }

    /// Message bytes of one batch, headers included.
    pub(crate) fn batch_message_bytes(&self) -> u64 {
        self.messages.messages_bytes() as u64
    }

    pub(crate) fn warm_up_limits(&self) -> Option<Limits> {
        let warm_up = self.config.warm_up();
        (!warm_up.is_zero()).then(|| Limits {
            messages: None,
            deadline: Some(Instant::now() + warm_up),
        })
    }

    /// Limits of one of `actors` from this moment on.
    pub(crate) fn limits(&self, actors: u32) -> Limits {
        Limits {
            messages: self
                .config
                .batches_per_actor(actors)
                .map(|batches| batches.saturating_mul(u64::from(self.config.messages_per_batch))),
            deadline: self
                .config
                .amount
                .duration()
                .map(|duration| Instant::now() + duration),
        }
    }

    /// Sleep, waking early for a stop.
    pub(crate) fn sleep_until(&self, end: Instant) {
        while !self.is_stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(NAP));
        }
    }

    /// Accept the error of an actor whose connection was cut off by a stop.
    pub(crate) fn finish_partially(
        &self,
        result: Result<(), ClientError>,
    ) -> Result<(), ClientError> {
        match result {
            Err(error)
                if self.cut_off.load(Ordering::Relaxed) && !error.leaves_connection_usable() =>
            {
                Ok(())
            }
            other => other,
        }
    }

    fn measure(&self) -> Result<Measured, ClientError> {
        let (producers, consumers) = (self.config.producers(), self.config.consumers());
        let actors = (producers + consumers) as usize;
        let outcomes = thread::scope(|scope| {
            let mut threads = Vec::with_capacity(actors);
            for index in 0..actors {
                let index = u32::try_from(index).expect("a sum of two numbers of actors");
                let thread = thread::Builder::new()
                    .name(format!("bench-{index}"))
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, move || {
                        let _finish = self.gate.finish_on_drop();
                        match index.checked_sub(producers) {
                            None => self.conclude(produce(self, index), true),
                            Some(index) => self.conclude(consume(self, index), false),
                        }
                    });
                match thread {
                    Ok(thread) => threads.push(thread),
                    Err(source) => {
                        self.fail(ClientError::System {
                            action: "start a thread",
                            source,
                        });
                        break;
                    }
                }
            }
            let samples = self.conduct(actors, threads.len());
            let outcomes: Vec<_> = threads
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .expect("an actor reports errors and does not panic")
                })
                .collect();
            samples.map(|samples| (samples, outcomes))
        });

        let error = self
            .first_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(error) = error {
            return Err(error);
        }
        let (samples, outcomes) = outcomes?;
        let mut producing = outcomes;
        let consuming = producing.split_off(producers as usize);
        let report = |outcomes: Vec<Option<ActorOutcome>>| {
            let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
            GroupReport::new(&outcomes)
        };
        Ok(Measured {
            partitions_count: self.target.partitions_count,
            samples,
            producers: report(producing),
            consumers: report(consuming),
        })
    }

    /// Open the gate twice, watch for a stop, take the samples around the measurement.
    fn conduct(
        &self,
        actors: usize,
        started: usize,
    ) -> Result<Option<(CpuSample, CpuSample)>, ClientError> {
        let keep_waiting = || !self.is_stopped();
        let mut before = None;
        let opened = self.gate.open_for(actors, keep_waiting, || {
            self.progress.enter(Phase::WarmingUp);
        }) && self.gate.open_for(actors, keep_waiting, || {
            before = Some(self.sample());
            self.progress.enter(Phase::Measuring);
        });
        if !opened {
            self.gate.give_up();
        }
        let mut stopped_at = None;
        self.gate.wait_finished(started, || {
            if self.is_stopped() {
                let since = *stopped_at.get_or_insert_with(Instant::now);
                if since.elapsed() >= STOP_GRACE {
                    self.cut_off();
                }
            }
        });
        before
            .map(|before| Ok((before?, self.sample()?)))
            .transpose()
    }

    fn conclude(
        &self,
        outcome: Result<Option<ActorOutcome>, ClientError>,
        is_producer: bool,
    ) -> Option<ActorOutcome> {
        if is_producer {
            self.producers_left.fetch_sub(1, Ordering::Release);
        }
        match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                // A connection that was cut off during the warm-up is not a failure either.
                if !self.cut_off.load(Ordering::Relaxed) || error.leaves_connection_usable() {
                    self.fail(error);
                }
                None
            }
        }
    }

    fn fail(&self, error: ClientError) {
        self.first_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
        self.halted.store(true, Ordering::Relaxed);
        self.gate.give_up();
    }

    fn cut_off(&self) {
        self.cut_off.store(true, Ordering::Relaxed);
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        for socket in sockets.iter() {
            // Fails if the socket is already closed.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn sample(&self) -> Result<CpuSample, ClientError> {
        Ok(CpuSample {
            at: Instant::now(),
            server: process_cpu(ProcessCpu::of_all(&self.config.server_pids))?,
            client: process_cpu(ProcessCpu::of_self())?,
        })
    }
}

/// Results of a run before its report.
struct Measured {
    partitions_count: u32,
    samples: Option<(CpuSample, CpuSample)>,
    producers: Option<GroupReport>,
    consumers: Option<GroupReport>,
}

impl Measured {
    fn into_report(self, config: BenchConfig, stopped: bool) -> BenchReport {
        let payload_bytes = [&self.producers, &self.consumers]
            .into_iter()
            .flatten()
            .map(|group| group.payload_bytes)
            .sum();
        let cpu = |pick: fn(&CpuSample) -> Option<ProcessCpu>| {
            let (before, after) = self.samples.as_ref()?;
            let spent = pick(after)?.since(pick(before)?);
            let wall_seconds = (after.at - before.at).as_secs_f64();
            Some(CpuReport::new(spent, wall_seconds, payload_bytes))
        };
        BenchReport {
            server_cpu: cpu(|sample| sample.server),
            client_cpu: cpu(|sample| Some(sample.client)),
            config,
            partitions_count: self.partitions_count,
            stopped,
            producers: self.producers,
            consumers: self.consumers,
        }
    }
}

fn connect(config: &BenchConfig) -> Result<Client, ClientError> {
    let mut client = Client::connect(&config.address, &config.connect_options())?;
    match &config.ticket {
        Some(ticket) => client.login_with_ticket(ticket)?,
        None => log_in(&mut client, config)?,
    }
    Ok(client)
}

/// Connect the client that looks up and creates stream and topic.
fn administrate(config: &BenchConfig) -> Result<Client, ClientError> {
    let address = config.catalog_address.as_ref().unwrap_or(&config.address);
    let mut client = Client::connect(address, &config.connect_options())?;
    log_in(&mut client, config)?;
    Ok(client)
}

fn log_in(client: &mut Client, config: &BenchConfig) -> Result<(), ClientError> {
    match &config.token {
        Some(token) => client.login_with_access_token(token)?,
        None => client.login(&config.username, &config.password)?,
    };
    Ok(())
}

fn process_cpu<T>(result: std::io::Result<T>) -> Result<T, ClientError> {
    result.map_err(|source| ClientError::System {
        action: "read the CPU time of a process",
        source,
    })
}

/// Prepare one batch, whose bytes all producers share.
fn prepare_messages(config: &BenchConfig) -> Result<BatchBuilder, ClientError> {
    let mut payload = vec![0; config.message_size_bytes as usize];
    let mut messages = BatchBuilder::with_capacity(
        config.messages_per_batch as usize,
        config.messages_per_batch as usize * (payload.len() + HEADER_BYTES),
    );
    let mut random = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..config.messages_per_batch {
        fill_randomly(&mut payload, &mut random);
        messages
            .push(0, 0, &payload, &[])
            .map_err(|error| ClientError::InvalidSetting {
                setting: "messages_per_batch",
                reason: error.to_string(),
            })?;
    }
    Ok(messages)
}

/// Fill with bytes that do not compress, the same in every run.
fn fill_randomly(bytes: &mut [u8], state: &mut u64) {
    for chunk in bytes.chunks_mut(8) {
        // xorshift64
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}
