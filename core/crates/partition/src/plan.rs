//! Splitting of ranges for readers that share them.

use headrace_log::{Log, PlanId};

use crate::api::{Outbox, RequestId, Response, respond};

/// Answer the requests whose plans are complete. The log knows a plan by the id of its request.
pub(crate) fn settle(log: &mut Log, out: &mut Outbox) {
    while let Some((PlanId(request_id), result)) = log.take_finished_plan() {
        let result = result.map(Response::Planned).map_err(Into::into);
        respond(out, RequestId(request_id), result);
    }
}
