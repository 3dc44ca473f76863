//! Answers and notifications to gateways, and the end of links.

use std::sync::Arc;

use headrace_link::{EndWait, Refusal, RequestId, ToGateway, WatchedState, WhenReady};
use headrace_model::Namespace;
use headrace_partition::Response;
use headrace_wire::{CommandCode, Status};

use super::Serving;
use super::frames::origin;
use super::{GatewayLink, PendingCall};
use crate::moment::Moment;
use crate::sessions::Sessions;
use crate::{
    api::{ConnectionKey, Origin, PartitionAnswer},
    dispatch::{count_outcome, refusal_status},
    hosting::NotificationTarget,
    meter::Meter,
    sessions::connection::{Pipeline, status_response},
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

    fn link_mut(&mut self, key: ConnectionKey) -> Option<(&mut GatewayLink, &mut Pipeline)> {
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

impl Serving<'_> {
    /// Stop reading from a gateway and drain the link: answer everything begun, followed by the final frame. Calls
    /// without an answer at that point were not executed.
    pub(crate) fn drain_link(&mut self, key: ConnectionKey) {
        let Some(connection) = self.sessions.get_mut(key) else {
            return;
        };
        if connection.closing {
            return;
        }
        connection.closing = true;
        self.end_link_waits(key);
        self.sessions.touch(key);
    }

    /// Drain the links of all gateways.
    pub(crate) fn drain_all_links(&mut self) {
        let links = self.sessions.iter();
        let links = links.filter(|connection| connection.gateway_link.is_some());
        let keys: Vec<ConnectionKey> = links.map(|connection| connection.key).collect();
        for key in keys {
            self.drain_link(key);
        }
    }

    /// Remove the waits and watches of a closed link.
    pub(crate) fn forget_link(&mut self, key: ConnectionKey) {
        self.end_link_waits(key);
    }

    /// End all waits and watches of a link.
    fn end_link_waits(&mut self, key: ConnectionKey) {
        let Some((served, _)) = self.sessions.link_mut(key) else {
            return;
        };
        served.held = None;
        let mut stopped = Vec::new();
        served.calls.retain(|call, asked| {
            let is_notified = asked.when_ready == Some(WhenReady::Notify);
            if asked.when_ready.is_some() {
                stopped.push((*call, asked.namespace, is_notified));
            }
            !is_notified
        });
        let notified_count = stopped.iter().filter(|stopped| stopped.2).count();
        served.waiting_count -= notified_count;
        for namespace in core::mem::take(&mut served.watched) {
            self.partitions
                .unwatch(namespace, NotificationTarget::Link(key));
        }
        for (call, namespace, is_notified) in stopped {
            let stop = if is_notified {
                EndWait::Cancel
            } else {
                EndWait::Refuse
            };
            let origin = origin(self.moment, key, call);
            self.partitions.stop_waiting(origin, namespace, stop);
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
