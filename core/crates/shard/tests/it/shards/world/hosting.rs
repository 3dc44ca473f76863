//! Simulated host: inputs to the shards, and execution of their effects.

use super::*;

impl World {
    /// Let the time of the shards be ahead of the wall clock.
    pub fn set_clock_lead(&mut self, micros: u64) {
        for shard in &mut self.shards {
            shard.set_clock_lead(micros);
        }
    }

    /// Complete the storage operations that were held back.
    pub fn release_storage(&mut self) {
        self.storage_held = false;
        while let Some((shard, namespace, completion)) = self.held.pop_front() {
            self.inputs[shard].push_back(Input::Storage {
                namespace,
                completion,
            });
        }
        self.run();
    }

    /// Deliver the replies of the control plane that were held back.
    pub fn release_control(&mut self) {
        self.control_held = false;
        while let Some((shard, reply)) = self.held_replies.pop_front() {
            self.inputs[shard].push_back(reply);
        }
        self.run();
    }

    /// Deliver the mail that was held back.
    pub fn release_mail(&mut self) {
        self.mail_held = false;
        while let Some((shard, mail)) = self.held_mail.pop_front() {
            self.inputs[shard].push_back(Input::Mail(mail));
        }
        self.run();
    }

    /// Set the topic's expiry and maximum size.
    pub fn bound_topic(&mut self, expiry_micros: u64, max_size_bytes: u64) {
        let partitions = self
            .writer
            .current()
            .topics()
            .next()
            .expect("a topic")
            .partitions_count();
        self.publish(vec![records::delta::Change::TopicPut(records::Topic {
            message_expiry_micros: expiry_micros,
            max_size_bytes,
            ..Self::topic(partitions, 3, 0)
        })]);
    }

    /// Statistics of the topic's partitions.
    pub fn statistics(&self) -> Vec<Arc<PartitionStatistics>> {
        let catalog = self.writer.current();
        let records = catalog.partitions();
        records
            .map(|(_, record)| Arc::clone(&record.statistics))
            .collect()
    }

    /// Stop reading on the client: data sent to it next does not arrive.
    pub fn hold_sends(&mut self, link: usize) {
        self.links[link].sends_held = true;
    }

    /// Resume reading on the client.
    pub fn release_sends(&mut self, link: usize) {
        let link = &mut self.links[link];
        link.sends_held = false;
        if link.held_send.take().is_some() {
            let connection = link.key;
            self.inputs[link.shard].push_back(Input::Sent {
                connection,
                sent: true,
            });
        }
        self.run();
    }

    /// Run until nothing happens any more.
    pub fn run(&mut self) {
        loop {
            let mut idle = true;
            for shard in 0..self.shards.len() {
                self.deliver(shard);
                let inputs = std::mem::take(&mut self.inputs[shard]);
                idle &= inputs.is_empty();
                let mut effects = Vec::new();
                self.now += 10;
                for input in inputs {
                    self.shards[shard].step(Timestamp(self.now), input, &mut effects);
                }
                self.shards[shard].end_of_turn(Timestamp(self.now), &mut effects);
                idle &= effects.is_empty();
                for effect in effects {
                    self.execute(shard, effect);
                }
            }
            if idle {
                return;
            }
        }
    }

    /// Complete the storage operation that was held back first.
    pub fn release_one(&mut self) {
        let (shard, namespace, completion) = self.held.pop_front().expect("one was held back");
        self.inputs[shard].push_back(Input::Storage {
            namespace,
            completion,
        });
        self.run();
    }

    /// Answer the next operation of this partition as one that was not requested, which makes the partition panic.
    pub fn confuse(&mut self, namespace: Namespace) {
        let held = self.held.iter_mut().find(|(_, of, _)| *of == namespace);
        held.expect("an operation under way").2.id = 1 << 40;
    }

    /// Complete receives for which bytes have arrived.
    fn deliver(&mut self, shard: usize) {
        for link in self
            .links
            .iter_mut()
            .filter(|link| link.shard == shard && !link.closed)
        {
            let Some((_, _, minimum)) = &link.receive else {
                continue;
            };
            if link.finished && link.towards.is_empty() && !link.stays {
                let (buffer, ..) = link.receive.take().expect("checked");
                let connection = link.key;
                self.inputs[shard].push_back(Input::Received {
                    connection,
                    buffer,
                    count: Some(0),
                });
                continue;
            }
            if link.towards.len() < *minimum {
                continue;
            }
            let (mut buffer, start, _) = link.receive.take().expect("checked");
            let count = link.towards.len().min(buffer.len() - start);
            for place in &mut buffer[start..start + count] {
                *place = link.towards.pop_front().expect("counted");
            }
            let connection = link.key;
            self.inputs[shard].push_back(Input::Received {
                connection,
                buffer,
                count: Some(count),
            });
        }
    }

    fn link_mut(&mut self, key: ConnectionKey) -> &mut Link {
        self.links
            .iter_mut()
            .find(|link| link.key == key)
            .expect("known")
    }

    fn count_mail(&mut self, mail: &Mail) {
        if matches!(mail, Mail::Watch { .. } | Mail::ViewChanged { .. }) {
            self.watch_mails += 1;
        }
    }

    pub(super) fn execute(&mut self, shard: usize, effect: Effect) {
        match effect {
            Effect::Receive {
                connection,
                buffer,
                start,
                minimum,
                ..
            } => {
                assert!(
                    minimum >= 1 && start + minimum <= buffer.len(),
                    "room for what is waited for"
                );
                let link = self.link_mut(connection);
                assert!(link.receive.is_none(), "one receive at a time");
                link.receive = Some((buffer, start, minimum));
            }
            Effect::Send { connection, slices } => {
                let link = self.link_mut(connection);
                for slice in &slices {
                    link.back.extend_from_slice(slice);
                }
                if link.sends_held {
                    link.held_send = Some(slices);
                    return;
                }
                self.inputs[shard].push_back(Input::Sent {
                    connection,
                    sent: true,
                });
            }
            Effect::Move {
                connection,
                to,
                connection_state,
            } => {
                let moved = ConnectionKey {
                    generation: connection.generation + 1,
                    ..connection
                };
                let to = if self.moves_fail {
                    shard
                } else {
                    usize::from(to.0)
                };
                let link = self.link_mut(connection);
                assert!(
                    link.receive.is_none(),
                    "nothing is in flight on a connection that moves"
                );
                link.key = moved;
                link.shard = to;
                self.inputs[to].push_back(Input::Adopted {
                    connection: moved,
                    connection_state,
                });
            }
            Effect::Finish { connection } => self.link_mut(connection).finished = true,
            Effect::Close { connection } => self.link_mut(connection).closed = true,
            Effect::Storage { namespace, request } => {
                let result = self.files.execute(namespace, request.operation);
                let completion = StorageCompletion {
                    id: request.id,
                    result,
                };
                if self.storage_held {
                    self.held.push_back((shard, namespace, completion));
                } else {
                    self.inputs[shard].push_back(Input::Storage {
                        namespace,
                        completion,
                    });
                }
            }
            Effect::ReleaseFiles { .. } => {}
            Effect::RemoveDirectory { namespace } => {
                self.files.remove_directory(namespace);
                self.inputs[shard].push_back(Input::DirectoryRemoved { namespace });
            }
            Effect::Mail { to, mail } if self.mail_held => {
                self.count_mail(&mail);
                self.held_mail.push_back((usize::from(to.0), mail));
            }
            Effect::Mail { to, mail } => {
                self.count_mail(&mail);
                self.inputs[usize::from(to.0)].push_back(Input::Mail(mail));
            }
            Effect::Connect { link, .. } => {
                let result = Err("this world has no other nodes".to_owned());
                self.inputs[shard].push_back(Input::Connected { link, result });
            }
            Effect::Notice { request } => self.notices.push(request),
            Effect::Report { message } => self.reports.push(message),
            Effect::Control { origin, request } => self.control(shard, origin, request),
        }
    }

    fn control(&mut self, shard: usize, origin: Origin, request: control::Request) {
        if matches!(request.operation, Some(Operation::CatchUp(_))) {
            let news = std::mem::take(&mut self.news);
            self.announce(news);
        }
        let reply = self.control_reply(&request);
        self.control_requests.push(request);
        let reply = Input::ControlReply { origin, reply };
        if self.control_held {
            self.held_replies.push_back((shard, reply));
        } else {
            self.inputs[shard].push_back(reply);
        }
    }
}
