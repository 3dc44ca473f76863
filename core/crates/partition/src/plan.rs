//! Splitting of ranges for readers that share them.

use headrace_log::{PlanId, RangeToPlan};

use crate::api::{Outbox, RequestId, Response};
use crate::partition::{Partition, respond};

impl Partition {
    pub(crate) fn plan(&mut self, request_id: RequestId, range: RangeToPlan, out: &mut Outbox) {
        self.log.plan(PlanId(request_id.0), range, &mut out.storage);
        self.settle_plans(out);
    }

    /// Answer the requests whose plans are complete.
    pub(crate) fn settle_plans(&mut self, out: &mut Outbox) {
        while let Some((PlanId(request_id), result)) = self.log.take_finished_plan() {
            let result = result.map(Response::Planned).map_err(Into::into);
            respond(out, RequestId(request_id), result);
        }
    }
}
