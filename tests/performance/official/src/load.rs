//! A run from the first connection to the report.

use std::error::Error;
use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use iggy::prelude::{
    Client, Consumer, Identifier, IggyClient, IggyMessage, MessageClient, Partitioning,
    PollingStrategy, UserClient,
};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::config::{Amount, Config, Mode};
use crate::process_cpu::ProcessCpu;
use crate::report::{Group, Report, Tally};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Connect, warm up, measure.
pub async fn run(config: Config) -> Outcome<Report> {
    // Each connection and this function pass the barrier twice: when all are warm, and when the CPU time has been read.
    let barrier = Arc::new(Barrier::new(config.connections as usize + 1));
    let server_pid = config.server_pid;
    let mut connections = JoinSet::new();
    for index in 0..config.connections {
        let connection = Connection::open(config.clone(), index).await?;
        connections.spawn(connection.work(Arc::clone(&barrier)));
    }
    let ready = async {
        barrier.wait().await;
        let before = sample(server_pid)?;
        barrier.wait().await;
        Outcome::Ok(before)
    };
    // A connection that fails during warm-up never reaches the barrier.
    let before = tokio::select! {
        before = ready => before?,
        Some(ended) = connections.join_next() => return Err(ended?.err().unwrap_or_else(|| "ended early".into())),
    };
    let mut tallies = Vec::new();
    while let Some(ended) = connections.join_next().await {
        tallies.push(ended??);
    }
    let after = sample(server_pid)?;
    Ok(Report {
        group: Group::new(&tallies).ok_or("no producer or consumer worked")?,
        server_cpu: after.0.since(before.0),
        client_cpu: after.1.since(before.1),
    })
}

/// CPU time of the server and of this process.
fn sample(server_pid: u32) -> Outcome<(ProcessCpu, ProcessCpu)> {
    Ok((ProcessCpu::of(server_pid)?, ProcessCpu::of(process::id())?))
}

/// Limits of one connection; both may apply.
struct Limits {
    messages: Option<u64>,
    deadline: Option<Instant>,
}

impl Limits {
    fn allow(&self, tally: &Tally) -> bool {
        self.messages.is_none_or(|limit| tally.messages < limit)
            && self.deadline.is_none_or(|deadline| tally.end < deadline)
    }
}

struct Connection {
    client: IggyClient,
    config: Config,
    stream: Identifier,
    topic: Identifier,
    partition_id: u32,
    messages: Vec<IggyMessage>,
    next_offset: u64,
}

impl Connection {
    async fn open(config: Config, index: u32) -> Outcome<Self> {
        // Set only the address, so that socket options are the client's defaults.
        let client = IggyClient::builder()
            .with_tcp()
            .with_server_address(config.address.clone())
            .build()?;
        client.connect().await?;
        client
            .login_user(&config.username, &config.password)
            .await?;
        let payload = Bytes::from(vec![0x5a; config.message_size_bytes]);
        let messages = (0..config.messages_per_batch)
            .map(|_| IggyMessage::builder().payload(payload.clone()).build())
            .collect::<Result<_, _>>()?;
        Ok(Self {
            client,
            stream: Identifier::named(&config.stream)?,
            topic: Identifier::named(&config.topic)?,
            config,
            partition_id: index,
            messages,
            next_offset: 0,
        })
    }

    async fn work(mut self, barrier: Arc<Barrier>) -> Outcome<Tally> {
        self.request_while(Limits {
            messages: None,
            deadline: Some(
                Instant::now() + Duration::try_from_secs_f64(self.config.warm_up_seconds)?,
            ),
        })
        .await?;
        barrier.wait().await;
        barrier.wait().await;
        let deadline = match self.config.amount {
            Amount::Seconds(seconds) => {
                Some(Instant::now() + Duration::try_from_secs_f64(seconds)?)
            }
            Amount::Bytes(_) => None,
        };
        self.request_while(Limits {
            messages: self.config.messages_per_connection(),
            deadline,
        })
        .await
    }

    async fn request_while(&mut self, limits: Limits) -> Outcome<Tally> {
        let mut tally = Tally::new()?;
        while limits.allow(&tally) {
            let start = Instant::now();
            let messages_count = match self.config.mode {
                Mode::Produce => self.send().await?,
                Mode::Consume => self.poll().await?,
            };
            let payload_bytes = messages_count * self.config.message_size_bytes as u64;
            if messages_count > 0 {
                tally.record(start, Instant::now(), messages_count, payload_bytes);
            }
        }
        Ok(tally)
    }

    async fn send(&mut self) -> Outcome<u64> {
        let partitioning = Partitioning::partition_id(self.partition_id);
        self.client
            .send_messages(&self.stream, &self.topic, &partitioning, &mut self.messages)
            .await?;
        Ok(self.messages.len() as u64)
    }

    async fn poll(&mut self) -> Outcome<u64> {
        let polled = self
            .client
            .poll_messages(
                &self.stream,
                &self.topic,
                Some(self.partition_id),
                &Consumer::new(Identifier::numeric(self.partition_id + 1)?),
                &PollingStrategy::offset(self.next_offset),
                self.config.messages_per_batch,
                false,
            )
            .await?;
        match polled.messages.last() {
            Some(message) => self.next_offset = message.header.offset + 1,
            None if self.next_offset == 0 => return Err("the partition holds no messages".into()),
            None => self.next_offset = 0,
        }
        Ok(polled.messages.len() as u64)
    }
}
