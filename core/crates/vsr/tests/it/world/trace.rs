//! Trace of the replicas' actions, as text.

use headrace_vsr::api::{Notice, Outcome, Output};
use headrace_vsr::frame::Area;

/// Lines of the trace, if tracing is enabled.
#[derive(Debug, Default)]
pub struct Trace {
    pub on: bool,
    lines: Vec<String>,
}

impl Trace {
    pub fn note(&mut self, index: u8, output: &Output) {
        if self.on
            && let Some(line) = describe(output)
        {
            self.lines.push(format!("{index} {line}"));
        }
    }

    /// Return the lines since the last call.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.lines).join("\n")
    }
}

fn describe(output: &Output) -> Option<String> {
    Some(match output {
        Output::Send { to, frame } => format!(
            "-> {to} {}",
            describe_area(&frame.header.area, frame.header.view)
        ),
        Output::Append { frames, .. } => {
            let ops: Vec<u64> = frames.iter().map(|frame| frame.header.op()).collect();
            format!("append {ops:?}")
        }
        Output::Truncate { from_op, .. } => format!("truncate {from_op}.."),
        Output::Superblock { image, .. } => format!(
            "superblock view={} log_view={} head={} checkpoint={}",
            image.view.number, image.view.log_view, image.view.head_op, image.checkpoint.op
        ),
        Output::Apply(operation) => format!("apply {}", operation.op),
        Output::Checkpoint { op, .. } => format!("checkpoint {op}"),
        Output::GcLog { below_op } => format!("gc ..{below_op}"),
        Output::Install { op, .. } => format!("install {op}"),
        Output::Reply { client, frame } => {
            format!(
                "reply {client} {}",
                describe_area(&frame.header.area, frame.header.view)
            )
        }
        Output::Proposed { outcome, .. } => match outcome {
            Outcome::Committed { op, .. } => format!("proposed: committed at {op}"),
            outcome => format!("proposed: {outcome:?}"),
        },
        Output::ReadReady { outcome, .. } => format!("read {outcome:?}"),
        Output::Notice(Notice::View { view, status }) => format!("view {view} {status:?}"),
        Output::Notice(notice) => format!("notice {notice:?}"),
        Output::Fatal(reason) => format!("fatal {reason}"),
        Output::Read { .. } | Output::ReadChunk { .. } | Output::WriteChunk { .. } => return None,
    })
}

fn describe_area(area: &Area, view: u32) -> String {
    match area {
        Area::Prepare(area) => format!("prepare op={} view={view} commit={}", area.op, area.commit),
        Area::PrepareOk(area) => format!("prepare_ok op={} view={view}", area.op),
        Area::Commit(area) => format!("commit {} view={view}", area.commit),
        Area::CommitOk(area) => format!("commit_ok op={} view={view}", area.op),
        Area::StartViewChange(area) => {
            format!(
                "start_view_change view={view} from={} {:?}",
                area.sender_view, area.reason
            )
        }
        Area::DoViewChange(area) => format!(
            "do_view_change view={view} log_view={} op={} commit={} nack={:b} present={:b}",
            area.log_view, area.op, area.commit_max, area.nack_bitset, area.present_bitset
        ),
        Area::StartView(area) => format!(
            "start_view view={view} op={} commit={} headers={}{}",
            area.op,
            area.commit_max,
            area.header_count,
            if area.nonce == 0 { "" } else { " answer" }
        ),
        Area::RequestStartView(_) => format!("request_start_view view={view}"),
        Area::RequestHeaders(area) => format!("request_headers {}..={}", area.op_min, area.op_max),
        Area::Headers(area) => format!("headers count={}", area.count),
        Area::RequestPrepare(area) => {
            format!("request_prepare {}..={}", area.op, area.op_max.max(area.op))
        }
        Area::NoPrepare(area) => format!("no_prepare op={} {:?}", area.op, area.reason),
        Area::RequestState(area) => format!("request_state {}..", area.op_min),
        Area::StateManifest(area) => format!("state_manifest {}", area.checkpoint_op),
        Area::RequestChunk(area) => format!("request_chunk of {} at {}", area.id, area.offset),
        Area::Chunk(area) => format!("chunk of {} at {}", area.id, area.offset),
        Area::Reply(area) => format!(
            "reply request={} op={} status={}",
            area.request, area.op, area.status
        ),
        Area::Redirect(area) => format!("redirect primary={} {:?}", area.primary, area.reason),
        Area::Eviction(area) => format!("eviction {:?}", area.reason),
        other => format!("{other:?}"),
    }
}
