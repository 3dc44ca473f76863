//! The blocking client, for the command line and for tests.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use headrace_client::{
    Client as NativeClient, ClientError, ConnectOptions, NewTopic, Polled as NativePolled,
    ResponseBuffer, Transport, Watcher as NativeWatcher,
};
use headrace_model::Offset;
use headrace_wire::{
    Command, Consumer, ConsumerKind,
    batch::BatchBuilder,
    command::{ConsumerOffsetPath, GroupPath, PollMessages, StreamPath, TopicPath, WaitMessages},
    response::{Stats as WireStats, StreamHeader, TopicDetails, TopicHeader, decode_list},
};
use pyo3::{exceptions::PyValueError, prelude::*, pybacked::PyBackedBytes, types::PyBytes};

use crate::{
    codec::{
        Capabilities, ConsumerGroup, ConsumerOffset, Name, PartitionDescription, Stats, Stream,
        Topic, decode_partition_descriptions, partitioning, strategy as strategy_of,
    },
    errors::{ConnectionLost, client_error, core_error},
    forked::Home,
    records::{Message, Polled},
    watcher::Watcher,
};

/// Interval at which a waiting call checks for signals of Python.
pub(crate) const INTERRUPTION_CHECK: Duration = Duration::from_millis(100);

/// Consumer that polls or stores offsets: a group if one is given, otherwise a plain consumer.
fn who<'a>(consumer: &'a Name, group: Option<&'a Name>) -> Consumer<'a> {
    let (kind, name) = match group {
        Some(group) => (ConsumerKind::Group, group),
        None => (ConsumerKind::Consumer, consumer),
    };
    Consumer {
        kind,
        id: name.identifier(),
    }
}

fn records_of(python: Python<'_>, polled: &NativePolled<'_>) -> PyResult<Polled> {
    let mut messages = Vec::new();
    for view in polled.messages() {
        let view = view.map_err(|error| core_error(&error))?;
        messages.push(Py::new(
            python,
            Message::new(python, &view, polled.partition_id.0),
        )?);
    }
    Ok(Polled {
        partition_id: polled.partition_id.0,
        current_offset: polled.current_offset.0,
        messages,
        gap: polled.gap.map(|gap| (gap.from.0, gap.to.0)),
    })
}

fn group_path<'a>(stream: &'a Name, topic: &'a Name, group: &'a Name) -> GroupPath<'a> {
    GroupPath {
        stream: stream.identifier(),
        topic: topic.identifier(),
        group: group.identifier(),
    }
}

fn offset_path<'a>(
    consumer: Consumer<'a>,
    stream: &'a Name,
    topic: &'a Name,
    partition_id: Option<u32>,
) -> ConsumerOffsetPath<'a> {
    ConsumerOffsetPath {
        consumer,
        stream: stream.identifier(),
        topic: topic.identifier(),
        partition_id,
    }
}

/// A blocking client of the binary protocol.
#[pyclass(frozen, module = "headrace_core")]
pub(crate) struct Client {
    connection: Mutex<Option<NativeClient>>,
    response_timeout: Duration,
    home: Home,
}

impl Client {
    /// Run `call` on the connection with the GIL released.
    fn with<T: Send>(
        &self,
        python: Python<'_>,
        call: impl FnOnce(&mut NativeClient) -> Result<T, ClientError> + Send,
    ) -> PyResult<T> {
        self.home.check()?;
        let called = python.detach(|| self.lock().as_mut().map(call));
        // Converted without the lock: an exception needs the GIL, and its holder may want the lock.
        called
            .ok_or_else(|| ConnectionLost::new_err("the client is closed"))?
            .map_err(|error| client_error(&error))
    }

    fn lock(&self) -> MutexGuard<'_, Option<NativeClient>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Client {
    /// Connect to `host:port` by `tcp` or `websocket`.
    #[staticmethod]
    #[pyo3(signature = (address, timeout_seconds = 10.0, *, transport = "tcp"))]
    fn connect(
        python: Python<'_>,
        address: &str,
        timeout_seconds: f64,
        transport: &str,
    ) -> PyResult<Self> {
        let transport = match transport {
            "tcp" => Transport::Tcp,
            "websocket" => Transport::WebSocket,
            other => {
                let problem = format!("transport: {other:?} is none of tcp and websocket");
                return Err(PyValueError::new_err(problem));
            }
        };
        let timeout = Duration::try_from_secs_f64(timeout_seconds)
            .map_err(|error| PyValueError::new_err(format!("timeout_seconds: {error}")))?;
        let options = ConnectOptions {
            transport,
            connect_timeout: Some(timeout),
            response_timeout: Some(timeout),
            ..ConnectOptions::default()
        };
        let client = python
            .detach(|| NativeClient::connect(address, &options))
            .map_err(|error| client_error(&error))?;
        Ok(Self {
            connection: Mutex::new(Some(client)),
            response_timeout: timeout,
            home: Home::here(),
        })
    }

    /// Log in with a password; returns the user's id.
    fn login(&self, python: Python<'_>, username: &str, password: &str) -> PyResult<u32> {
        self.with(python, |client| Ok(client.login(username, password)?.0))
    }

    /// Log in with a personal access token; returns the user's id.
    fn login_with_token(&self, python: Python<'_>, token: &str) -> PyResult<u32> {
        self.with(python, |client| {
            Ok(client.login_with_access_token(token)?.0)
        })
    }

    /// Log in at a partition node; permits only the access that the ticket grants.
    fn login_with_ticket(&self, python: Python<'_>, ticket: &str) -> PyResult<()> {
        self.with(python, |client| client.login_with_ticket(ticket))
    }

    /// Check that the server answers.
    fn ping(&self, python: Python<'_>) -> PyResult<()> {
        self.with(python, NativeClient::ping)
    }

    /// Query the statistics of the server.
    fn stats(&self, python: Python<'_>) -> PyResult<Stats> {
        let payload = self.with(python, |client| {
            Ok(client.request(&Command::GetStats)?.to_vec())
        })?;
        let stats = WireStats::decode(&payload).map_err(|error| core_error(&error))?;
        Ok(stats.into())
    }

    /// List the streams, without their topics.
    fn streams(&self, python: Python<'_>) -> PyResult<Vec<Stream>> {
        let payload = self.with(python, |client| {
            Ok(client.request(&Command::GetStreams)?.to_vec())
        })?;
        let headers =
            decode_list::<StreamHeader<'_>>(&payload).map_err(|error| core_error(&error))?;
        Ok(headers.into_iter().map(Stream::from).collect())
    }

    /// Create a stream, and return it.
    fn create_stream(&self, python: Python<'_>, name: &str) -> PyResult<Stream> {
        let command = Command::CreateStream(headrace_wire::command::CreateStream { name });
        let payload = self.with(python, |client| Ok(client.request(&command)?.to_vec()))?;
        let header = StreamHeader::decode(&payload).map_err(|error| core_error(&error))?;
        Ok(Stream::from(header))
    }

    /// Delete a stream with its topics and messages.
    fn delete_stream(&self, python: Python<'_>, stream: Name) -> PyResult<()> {
        self.with(python, |client| client.delete_stream(stream.identifier()))
    }

    /// List the topics of a stream, without their partitions.
    fn topics(&self, python: Python<'_>, stream: Name) -> PyResult<Vec<Topic>> {
        let payload = self.with(python, |client| {
            let path = StreamPath {
                stream: stream.identifier(),
            };
            Ok(client.request(&Command::GetTopics(path))?.to_vec())
        })?;
        let headers =
            decode_list::<TopicHeader<'_>>(&payload).map_err(|error| core_error(&error))?;
        Ok(headers.into_iter().map(Topic::from).collect())
    }

    /// Get a topic with its partitions; None if there is no such topic.
    fn topic(&self, python: Python<'_>, stream: Name, topic: Name) -> PyResult<Option<Topic>> {
        let payload = self.with(python, |client| {
            let path = TopicPath {
                stream: stream.identifier(),
                topic: topic.identifier(),
            };
            Ok(client.request(&Command::GetTopic(path))?.to_vec())
        })?;
        if payload.is_empty() {
            Ok(None)
        } else {
            topic_details(&payload).map(Some)
        }
    }

    /// Create a topic, and return it with its partitions. 0: the server's default expiry or size limit.
    #[pyo3(signature = (stream, name, partitions, message_expiry_micros = 0, max_size_bytes = 0))]
    fn create_topic(
        &self,
        python: Python<'_>,
        stream: Name,
        name: &str,
        partitions: u32,
        message_expiry_micros: u64,
        max_size_bytes: u64,
    ) -> PyResult<Topic> {
        let topic = NewTopic {
            message_expiry_micros,
            max_size_bytes,
            ..NewTopic::new(name, partitions)
        };
        let command = Command::CreateTopic(headrace_wire::command::CreateTopic {
            stream: stream.identifier(),
            partitions_count: topic.partitions_count,
            compression_code: topic.compression.code(),
            message_expiry: topic.message_expiry_micros,
            max_topic_size: topic.max_size_bytes,
            replication_factor: topic.replication_factor,
            name: topic.name,
        });
        let payload = self.with(python, |client| Ok(client.request(&command)?.to_vec()))?;
        topic_details(&payload)
    }

    /// Delete a topic with its messages.
    fn delete_topic(&self, python: Python<'_>, stream: Name, topic: Name) -> PyResult<()> {
        self.with(python, |client| {
            client.delete_topic(stream.identifier(), topic.identifier())
        })
    }

    /// Append messages: to `partition`, to the partition of `key`, or balanced if neither is given.
    #[pyo3(signature = (stream, topic, payloads, *, partition = None, key = None))]
    fn send(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
        payloads: Vec<PyBackedBytes>,
        partition: Option<u32>,
        key: Option<PyBackedBytes>,
    ) -> PyResult<()> {
        let partitioning = partitioning(partition, key.as_ref())?;
        #[expect(
            clippy::disallowed_methods,
            reason = "this is a client: the origin timestamp is its own clock's"
        )]
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let origin_timestamp = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let mut batch = BatchBuilder::new();
        for payload in &payloads {
            batch
                .push(0, origin_timestamp, payload, &[])
                .map_err(|status| PyValueError::new_err(status.to_string()))?;
        }
        self.with(python, |client| {
            client.send(&batch.request(stream.identifier(), topic.identifier(), partitioning))
        })
    }

    /// Read messages; `strategy` is offset, timestamp, first, last or next, `value` the offset or timestamp.
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of the Python method"
    )]
    #[pyo3(signature = (
        stream, topic, partition, *,
        strategy = "next", value = 0, count = 100, consumer = Name::Number(1), group = None, auto_commit = false
    ))]
    fn poll(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
        partition: Option<u32>,
        strategy: &str,
        value: u64,
        count: u32,
        consumer: Name,
        group: Option<Name>,
        auto_commit: bool,
    ) -> PyResult<Polled> {
        let strategy = strategy_of(strategy, value)?;
        let mut buffer = ResponseBuffer::default();
        let buffer = &mut buffer;
        let polled = self.with(python, |client| {
            let request = PollMessages {
                consumer: who(&consumer, group.as_ref()),
                stream: stream.identifier(),
                topic: topic.identifier(),
                partition_id: partition,
                strategy,
                count,
                auto_commit,
            };
            client.poll(&request, buffer)
        })?;
        records_of(python, &polled)
    }

    /// Request explanations of refusals beyond the status, if the server supports them.
    fn explain_refusals(&self, python: Python<'_>) -> PyResult<()> {
        self.with(python, NativeClient::explain_refusals)
    }

    /// Query state and placement of each partition of a topic.
    fn describe_partitions(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
    ) -> PyResult<Vec<PartitionDescription>> {
        let path = TopicPath {
            stream: stream.identifier(),
            topic: topic.identifier(),
        };
        let payload = self.with(python, |client| {
            (client.request(&Command::DescribePartitions(path))).map(<[u8]>::to_vec)
        })?;
        decode_partition_descriptions(&payload)
    }

    /// Query the server's extensions to the binary protocol.
    fn capabilities(&self, python: Python<'_>) -> PyResult<Capabilities> {
        self.with(python, NativeClient::capabilities)
            .map(Capabilities::from)
    }

    /// Read like `poll`, but wait for `minimum_bytes` of messages, for `count` messages, or until the timeout.
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of the Python method"
    )]
    #[pyo3(signature = (
        stream, topic, partition, *, maximum_wait_seconds, minimum_bytes = 1,
        strategy = "next", value = 0, count = 100, consumer = Name::Number(1), group = None, auto_commit = false
    ))]
    fn wait(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
        partition: Option<u32>,
        maximum_wait_seconds: f64,
        minimum_bytes: u32,
        strategy: &str,
        value: u64,
        count: u32,
        consumer: Name,
        group: Option<Name>,
        auto_commit: bool,
    ) -> PyResult<Polled> {
        let strategy = strategy_of(strategy, value)?;
        let maximum_wait = Duration::try_from_secs_f64(maximum_wait_seconds)
            .map_err(|error| PyValueError::new_err(format!("maximum_wait_seconds: {error}")))?;
        let request = WaitMessages {
            poll: PollMessages {
                consumer: who(&consumer, group.as_ref()),
                stream: stream.identifier(),
                topic: topic.identifier(),
                partition_id: partition,
                strategy,
                count,
                auto_commit,
            },
            minimum_bytes,
            maximum_wait_micros: u64::try_from(maximum_wait.as_micros()).unwrap_or(u64::MAX),
        };
        self.with(python, |client| client.begin_wait(&request))?;
        let limit = maximum_wait.saturating_add(self.response_timeout);
        #[expect(clippy::disallowed_methods, reason = "this is a client: it waits")]
        let begin = Instant::now();
        while !self.with(python, |client| client.is_wait_over(INTERRUPTION_CHECK))? {
            if begin.elapsed() >= limit {
                self.close(python);
                let text = format!("no answer to ReadMessages within {limit:?}");
                return Err(ConnectionLost::new_err(text));
            }
            // A late answer to the interrupted wait would be taken for the next request's.
            python.check_signals().inspect_err(|_| self.close(python))?;
        }
        let mut buffer = ResponseBuffer::default();
        let buffer = &mut buffer;
        let polled = self.with(python, |client| client.end_wait(buffer))?;
        records_of(python, &polled)
    }

    /// Dedicate the connection, after a login, to notifications about partitions. The client is closed by this.
    fn watcher(&self, python: Python<'_>) -> PyResult<Watcher> {
        self.home.check()?;
        let client = python.detach(|| self.lock().take());
        let client = client.ok_or_else(|| ConnectionLost::new_err("the client is closed"))?;
        Ok(Watcher::new(NativeWatcher::new(client)))
    }

    /// Store the offset of the last processed message: for a consumer, or as a member for its group.
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of the Python method"
    )]
    #[pyo3(signature = (stream, topic, partition, offset, consumer = Name::Number(1), *, group = None))]
    fn store_offset(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
        partition: Option<u32>,
        offset: u64,
        consumer: Name,
        group: Option<Name>,
    ) -> PyResult<()> {
        let consumer = who(&consumer, group.as_ref());
        let path = offset_path(consumer, &stream, &topic, partition);
        self.with(python, |client| client.store_offset(path, Offset(offset)))
    }

    /// Get the stored offset of a consumer, or of a group (membership is not required).
    #[pyo3(signature = (stream, topic, partition, consumer = Name::Number(1), *, group = None))]
    fn offset(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
        partition: Option<u32>,
        consumer: Name,
        group: Option<Name>,
    ) -> PyResult<Option<ConsumerOffset>> {
        let consumer = who(&consumer, group.as_ref());
        let path = offset_path(consumer, &stream, &topic, partition);
        let stored = self.with(python, |client| client.get_offset(path))?;
        Ok(stored.map(ConsumerOffset::from))
    }

    /// Delete the stored offset of a consumer or a group.
    #[pyo3(signature = (stream, topic, partition, consumer = Name::Number(1), *, group = None))]
    fn delete_offset(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
        partition: Option<u32>,
        consumer: Name,
        group: Option<Name>,
    ) -> PyResult<()> {
        let consumer = who(&consumer, group.as_ref());
        let path = offset_path(consumer, &stream, &topic, partition);
        self.with(python, |client| client.delete_offset(path))
    }

    /// List the consumer groups of a topic, without their members.
    fn groups(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
    ) -> PyResult<Vec<ConsumerGroup>> {
        let groups = self.with(python, |client| {
            client.get_groups(stream.identifier(), topic.identifier())
        })?;
        Ok(groups.into_iter().map(ConsumerGroup::from).collect())
    }

    /// Get a consumer group with its members; None if there is no such group.
    fn group(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
        group: Name,
    ) -> PyResult<Option<ConsumerGroup>> {
        let path = group_path(&stream, &topic, &group);
        self.with(python, |client| match client.get_group(path) {
            Ok(group) => Ok(Some(ConsumerGroup::from(group))),
            Err(ClientError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// Create a consumer group, and return it.
    fn create_group(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
        name: &str,
    ) -> PyResult<ConsumerGroup> {
        let group = self.with(python, |client| {
            client.create_group(stream.identifier(), topic.identifier(), name)
        })?;
        Ok(ConsumerGroup::from(group))
    }

    /// Delete a group with its offsets.
    fn delete_group(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
        group: Name,
    ) -> PyResult<()> {
        let path = group_path(&stream, &topic, &group);
        self.with(python, |client| client.delete_group(path))
    }

    /// Join a group with this connection; closing the connection ends the membership, too.
    fn join_group(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
        group: Name,
    ) -> PyResult<()> {
        let path = group_path(&stream, &topic, &group);
        self.with(python, |client| client.join_group(path))
    }

    /// Leave a group that this connection has joined.
    fn leave_group(
        &self,
        python: Python<'_>,
        stream: Name,
        topic: Name,
        group: Name,
    ) -> PyResult<()> {
        let path = group_path(&stream, &topic, &group);
        self.with(python, |client| client.leave_group(path))
    }

    /// Send a command as one of the functions `encode_...` returns it, and return the payload of its answer.
    fn request<'p>(
        &self,
        python: Python<'p>,
        code: u32,
        payload: PyBackedBytes,
    ) -> PyResult<Bound<'p, PyBytes>> {
        let command = Command::decode(code, &payload).map_err(|status| {
            PyValueError::new_err(format!("code {code} with this payload: {status}"))
        })?;
        let answer = self.with(python, |client| Ok(client.request(&command)?.to_vec()))?;
        Ok(PyBytes::new(python, &answer))
    }

    /// Close the connection. Later calls raise `ConnectionLost`.
    fn close(&self, python: Python<'_>) {
        python.detach(|| *self.lock() = None);
    }
}

fn topic_details(payload: &[u8]) -> PyResult<Topic> {
    TopicDetails::decode(payload)
        .map(Topic::from)
        .map_err(|error| core_error(&error))
}
