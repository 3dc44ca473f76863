//! What other shards say, and what is said to them.

use headrace_model::Namespace;

use crate::{
    Shard,
    api::{Effect, Mail, Origin, Refusal},
    partitions::Answer,
};

impl Shard {
    pub(crate) fn take_mail(&mut self, mail: Mail, effects: &mut Vec<Effect>) {
        let now = self.now;
        match mail {
            Mail::Request {
                origin,
                namespace,
                request,
            } => {
                let catalog = self.catalog.load();
                self.partitions
                    .submit(catalog, origin, namespace, request, now, effects);
            }
            Mail::Answer {
                origin,
                namespace,
                result,
            } => {
                self.answer_connection(origin, namespace, result, effects);
            }
            Mail::Wait {
                origin,
                namespace,
                poll,
                when_ready,
            } => {
                let catalog = self.catalog.load();
                let wanted = (poll, when_ready);
                self.partitions
                    .wait(catalog, origin, namespace, wanted, now, effects);
            }
            Mail::StopWaiting {
                origin,
                namespace,
                stop,
            } => self.partitions.stop_waiting(origin, namespace, stop),
            Mail::Told { origin, namespace } => {
                self.wait_told(origin, namespace, effects);
            }
            Mail::Watch {
                namespace,
                shard,
                seen,
            } => {
                let catalog = self.catalog.load();
                self.partitions
                    .watch(catalog, namespace, (shard, seen), now, effects);
            }
            Mail::Unwatch { namespace, shard } => {
                self.partitions.unwatch(namespace, shard);
            }
            Mail::Seen { namespace, view } => self.watch_told(namespace, view),
        }
    }

    /// Bring answers of this shard's partitions to where they belong.
    pub(crate) fn deliver_answers(&mut self, effects: &mut Vec<Effect>) {
        while self.partitions.has_answers() {
            for (origin, namespace) in self.partitions.take_told() {
                if origin.shard == self.config.shard {
                    self.wait_told(origin, namespace, effects);
                } else {
                    effects.push(Effect::Mail {
                        to: origin.shard,
                        mail: Mail::Told { origin, namespace },
                    });
                }
            }
            for (shard, namespace, view) in self.partitions.take_seen() {
                if shard == self.config.shard {
                    self.watch_told(namespace, view);
                } else {
                    let mail = Mail::Seen { namespace, view };
                    effects.push(Effect::Mail { to: shard, mail });
                }
            }
            let mut answers = self.partitions.take_answers();
            for answer in answers.drain(..) {
                if answer.origin.shard == self.config.shard {
                    let Answer {
                        origin,
                        namespace,
                        result,
                    } = answer;
                    self.answer_connection(origin, namespace, result, effects);
                } else {
                    effects.push(Effect::Mail {
                        to: answer.origin.shard,
                        mail: Mail::Answer {
                            origin: answer.origin,
                            namespace: answer.namespace,
                            result: answer.result,
                        },
                    });
                }
            }
            self.partitions.recycle_answers(answers);
        }
    }

    /// Fill in the response to a partition request of a connection here.
    fn answer_connection(
        &mut self,
        origin: Origin,
        namespace: Namespace,
        result: Result<headrace_partition::Response, Refusal>,
        effects: &mut Vec<Effect>,
    ) {
        if self.waits.has_asked(&origin) {
            return self.wait_answered(origin, namespace, result, effects);
        }
        let Some(connection) = self.connection_mut(origin.connection) else {
            return;
        };
        crate::dispatch::encode_partition_answer(
            &mut connection.pipeline,
            origin.sequence,
            namespace,
            result,
        );
        self.touch(origin.connection);
    }
}
