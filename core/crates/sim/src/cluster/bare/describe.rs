//! Outputs and frames in the trace.

use headrace_vsr::api::Output;
use headrace_vsr::frame::{Area, Frame};

/// Kind of an output, for the trace.
pub(super) const fn name(output: &Output) -> &'static str {
    match output {
        Output::Send { .. } => "send",
        Output::Append { .. } => "append",
        Output::Truncate { .. } => "truncate",
        Output::Read { .. } => "read",
        Output::Superblock { .. } => "superblock",
        Output::Apply(_) => "apply",
        Output::Checkpoint { .. } => "checkpoint",
        Output::GcLog { .. } => "collect",
        Output::ReadChunk { .. } => "read chunk",
        Output::WriteChunk { .. } => "write chunk",
        Output::Install { .. } => "install",
        Output::Reply { .. } => "reply",
        Output::Proposed { .. } => "proposed",
        Output::ReadReady { .. } => "read ready",
        Output::Notice(_) => "notice",
        Output::Fatal(_) => "fatal",
    }
}

/// Numbers that distinguish an output from others of its kind.
pub(super) fn detail(output: &Output) -> [u64; 2] {
    let low = |word: u128| u64::try_from(word & u128::from(u64::MAX)).expect("masked");
    match output {
        Output::Send { to, frame } => [(*to).into(), low(frame.header.checksum)],
        Output::Append { token, frames } => [*token, frames.len() as u64],
        Output::Truncate { token, from_op } => [*token, *from_op],
        Output::Read { token, op, .. }
        | Output::ReadChunk { token, op, .. }
        | Output::WriteChunk { token, op, .. } => [*token, *op],
        Output::Superblock { token, image } => [*token, image.sequence],
        Output::Apply(operation) => [operation.op, low(operation.checksum)],
        Output::Checkpoint { op, .. } => [*op, 0],
        Output::GcLog { below_op } => [*below_op, 0],
        Output::Install { token, digest, .. } => [*token, low(*digest)],
        Output::Reply { client, frame } => [low(*client), low(frame.header.checksum)],
        Output::Proposed {
            request_id: ticket, ..
        } => [*ticket, 0],
        Output::ReadReady { id, .. } => [*id, 0],
        Output::Notice(_) | Output::Fatal(_) => [0, 0],
    }
}

/// Human-readable description of an output.
pub(super) fn describe(output: &Output) -> String {
    match output {
        Output::Send { to, frame } => format!("-> {to} {}", describe_frame(frame)),
        Output::Append { token, frames } => {
            let ops: Vec<_> = frames
                .iter()
                .map(|frame| (frame.header.op(), frame.header.view))
                .collect();
            format!("append {token}: (op, view) {ops:?}")
        }
        Output::Superblock { token, image } => format!(
            "superblock {token}: sequence {} view {} log_view {} head {} start {} commit {} checkpoint {}",
            image.sequence,
            image.view.number,
            image.view.log_view,
            image.view.head_op,
            image.view.start_op,
            image.commit_max,
            image.checkpoint.op
        ),
        Output::Apply(operation) => format!(
            "apply {} {:?}: {} commands",
            operation.op,
            operation.operation,
            operation.commands.len()
        ),
        Output::Checkpoint { op, .. } => format!("checkpoint {op}"),
        Output::WriteChunk {
            token,
            op,
            offset,
            bytes,
        } => format!(
            "write chunk {token}: of {op} at {offset}, {} bytes",
            bytes.len()
        ),
        Output::Reply { client, frame } => format!("reply to {client:x} {}", describe_frame(frame)),
        other => format!("{other:?}"),
    }
}

/// Human-readable description of a frame: the most informative fields.
pub(super) fn describe_frame(frame: &Frame) -> String {
    let view = frame.header.view;
    match frame.header.area {
        Area::Prepare(area) => format!(
            "Prepare op {} view {view} commit {} {:?}",
            area.op, area.commit, area.operation
        ),
        Area::PrepareOk(area) => format!(
            "PrepareOk op {} view {view} executed {}",
            area.op, area.commit_min
        ),
        Area::Commit(area) => format!("Commit {} view {view} probe {}", area.commit, area.probe),
        Area::CommitOk(area) => format!("CommitOk view {view} op {} probe {}", area.op, area.probe),
        other => format!("view {view} {other:?}"),
    }
}
