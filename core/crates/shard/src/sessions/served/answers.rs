//! Answers and notifications to gateways, and the end of links.

use std::sync::Arc;

use headrace_link::{Refusal, RequestId, ToGateway, WatchedState};
use headrace_model::Namespace;
use headrace_partition::Response;
use headrace_wire::{CommandCode, Status};

use super::{GatewayLink, PendingCall};
use crate::{
    calls::{ConnectionKey, Origin, PartitionAnswer},
    dispatch::answers::{count_outcome, refusal_status},
    meter::Meter,
    moment::Moment,
    sessions::{
        Sessions,
        connection::{Pipeline, status_response},
    },
    tracer::{Key, RequestTrace, TraceRecord},
};

impl Sessions {
    /// Send the answer of a partition to the gateway that asked.
    pub(crate) fn answer_link(&mut self, moment: Moment<'_>, answer: PartitionAnswer) {
        let PartitionAnswer {
            origin,
            namespace,
            result,
        } = answer;
        let version = moment.catalog.version();
        let meter = Arc::clone(moment.meter);
        let Some((served, pipeline)) = self.link_mut(origin.connection) else {
            return;
        };
        let call = RequestId(origin.sequence.0);
        let Some(asked) = served.end(call) else {
            return;
        };
        count(&meter, &asked, &result);
        let frame = match result {
            Err(Refusal::Elsewhere | Refusal::Unavailable) => {
                served.refuse(call, namespace, version);
                ToGateway::WrongNode { call, version }
            }
            result => ToGateway::Answer { call, result },
        };
        served.queue(frame, pipeline);
        self.touch(origin.connection);
    }

    /// Notify a gateway that a waiting poll will find enough messages. Returns false if no gateway has such a poll.
    pub(crate) fn notify_link(&mut self, origin: Origin) -> bool {
        let Some((served, pipeline)) = self.link_mut(origin.connection) else {
            return false;
        };
        let call = RequestId(origin.sequence.0);
        if served.end(call).is_some() {
            served.queue(ToGateway::PollReady { call }, pipeline);
            self.touch(origin.connection);
        }
        true
    }

    /// Notify a gateway that a watched partition has changed; `None` if the partition is no longer here.
    pub(crate) fn notify_link_view(
        &mut self,
        moment: Moment<'_>,
        key: ConnectionKey,
        namespace: Namespace,
        view: Option<WatchedState>,
    ) {
        let version = moment.catalog.version();
        let Some((served, pipeline)) = self.link_mut(key) else {
            return;
        };
        if served.watched.remove(&namespace) {
            let frame = match view {
                Some(view) => ToGateway::StateChanged { namespace, view },
                None => ToGateway::NotWatched { namespace, version },
            };
            served.queue(frame, pipeline);
            self.touch(key);
        }
    }

    pub(crate) fn link_mut(
        &mut self,
        key: ConnectionKey,
    ) -> Option<(&mut GatewayLink, &mut Pipeline)> {
        let connection = self.get_mut(key)?;
        let served = connection.gateway_link.as_deref_mut()?;
        Some((served, &mut connection.pipeline))
    }

    /// Resume links that waited for a newer catalog.
    pub(crate) fn wake_links(&mut self) {
        let links = self.iter();
        let held = links.filter(|connection| {
            let served = connection.gateway_link.as_deref();
            served.is_some_and(|served| served.held.is_some())
        });
        let keys: Vec<ConnectionKey> = held.map(|connection| connection.key).collect();
        for key in keys {
            self.touch(key);
        }
    }

    /// Pass collected frames to the pipeline, and the final frame once the link is drained.
    pub(crate) fn conclude_link(&mut self, key: ConnectionKey) {
        let Some(connection) = self.get_mut(key) else {
            return;
        };
        let Some(served) = connection.gateway_link.as_deref_mut() else {
            return;
        };
        if connection.closing && !served.owes_answers() && !served.has_parted {
            served.has_parted = true;
            served.flush_frames(&mut connection.pipeline);
            connection
                .pipeline
                .queue(status_response(Status::DISCONNECTED));
        } else if !connection.sending {
            served.flush_frames(&mut connection.pipeline);
        }
    }
}

/// Count an answer, and record the trace of its request if it is traced.
fn count(meter: &Meter, asked: &PendingCall, result: &Result<Response, Refusal>) {
    count_outcome(meter, result);
    let status = match result {
        Ok(_) | Err(Refusal::NothingAssigned) => Status::OK,
        Err(refusal) => refusal_status(refusal),
    };
    meter.answered(asked.command, asked.began, status.0);
    if let Some((request, context)) = asked.trace {
        meter.tracer.record(TraceRecord::Request(RequestTrace {
            key: Key {
                shard: meter.shard(),
                request,
            },
            context,
            command: CommandCode::try_from(asked.command.code()).ok(),
            began: asked.began,
            ended: meter.now(),
            status: status.0,
            bytes: asked.bytes,
        }));
    }
}
