//! Consistency checks between the header and the body of a frame.

use super::{headers, manifest, multi};
use crate::{
    frame::area::{
        ARTIFACTS_MAX, Area, CHUNK_BYTES_MAX, DoViewChange, HEADERS_MAX, Prepare, Request,
        RequestHeaders, StartView,
    },
    frame::{
        HEADER_BYTES, Header, NO_REPLICA, Operation, PrepareFlags, PrepareHeader, Reject,
        SUFFIX_MAX,
    },
};

/// Check the requirements of a command on the header and body of its frame.
pub(crate) fn check(header: &Header, body: &[u8]) -> Result<(), Reject> {
    if header.command().is_of_node() != (header.group == 0) {
        return Err(Reject::Group);
    }
    if header.replica == NO_REPLICA {
        return Err(Reject::Replica);
    }
    match &header.area {
        Area::Request(area) => check_request(area),
        Area::Prepare(area) => check_prepare(area, body),
        Area::DoViewChange(area) => check_do_view_change(header, area, body),
        Area::StartView(area) => check_start_view(header, area, body),
        Area::RequestHeaders(area) => {
            check_request_headers(area)?;
            empty(body)
        }
        Area::Headers(area) => {
            holds(u64::from(area.count) <= HEADERS_MAX, Reject::Area)?;
            let headers = own_headers(header, body, area.count)?;
            let descends = headers.windows(2).all(|pair| pair[0].op() > pair[1].op());
            holds(
                descends && headers.iter().all(|one| !one.is_blank()),
                Reject::Body,
            )
        }
        Area::RequestPrepare(area) => {
            holds(area.op_max == 0 || area.op_max >= area.op, Reject::Area)?;
            empty(body)
        }
        Area::StateManifest(area) => {
            holds(area.artifacts <= ARTIFACTS_MAX, Reject::Area)?;
            let (checkpoint, artifacts) = manifest::decode(body)?;
            let fits = artifacts.len() as u64 == u64::from(area.artifacts)
                && checkpoint.op() == area.checkpoint_op
                && is_of(&checkpoint, header);
            holds(fits, Reject::Body)
        }
        Area::RequestChunk(area) => {
            holds((1..=CHUNK_BYTES_MAX).contains(&area.len), Reject::Area)?;
            empty(body)
        }
        Area::Chunk(area) => {
            holds(area.len <= CHUNK_BYTES_MAX, Reject::Area)?;
            holds(area.len as usize == body.len(), Reject::Body)
        }
        Area::Reply(_) => Ok(()),
        Area::PingClient(area) => {
            holds(area.client != 0, Reject::Area)?;
            empty(body)
        }
        Area::Ping(_)
        | Area::Pong(_)
        | Area::PongClient(_)
        | Area::PrepareOk(_)
        | Area::Commit(_)
        | Area::StartViewChange(_)
        | Area::Eviction(_)
        | Area::RequestStartView(_)
        | Area::NoPrepare(_)
        | Area::RequestState(_)
        | Area::CommitOk(_)
        | Area::Redirect(_) => empty(body),
    }
}

fn holds(condition: bool, otherwise: Reject) -> Result<(), Reject> {
    if condition { Ok(()) } else { Err(otherwise) }
}

fn empty(body: &[u8]) -> Result<(), Reject> {
    holds(body.is_empty(), Reject::Body)
}

fn check_request(area: &Request) -> Result<(), Reject> {
    let registers = area.operation == Operation::REGISTER;
    let numbered = if registers {
        area.session == 0 && area.request == 0
    } else {
        area.session > 0 && area.request > 0
    };
    holds(
        area.client != 0 && numbered && area.operation.is_requestable(),
        Reject::Area,
    )
}

fn check_prepare(area: &Prepare, body: &[u8]) -> Result<(), Reject> {
    // Root and blank only occur in lists of headers.
    let executable = area.operation != Operation::ROOT && area.operation != Operation::BLANK;
    holds(
        executable && area.op > 0 && area.commit < area.op,
        Reject::Area,
    )?;
    if area.flags.contains(PrepareFlags::MULTI) {
        multi::check(body)?;
    }
    Ok(())
}

fn check_request_headers(area: &RequestHeaders) -> Result<(), Reject> {
    let span = area.op_max.checked_sub(area.op_min);
    holds(span.is_some_and(|span| span < HEADERS_MAX), Reject::Area)
}

fn check_do_view_change(header: &Header, area: &DoViewChange, body: &[u8]) -> Result<(), Reject> {
    let known = area.log_view <= header.view && area.commit_min <= area.commit_max;
    // Bits that refer to no header must be clear: a receiver may count the set bits.
    let unused = u128::MAX.checked_shl(area.header_count).unwrap_or(0);
    let bits = (area.nack_bitset | area.present_bitset) & unused == 0;
    holds(known && bits, Reject::Area)?;
    suffix(header, area.op, area.header_count, body).map(drop)
}

fn check_start_view(header: &Header, area: &StartView, body: &[u8]) -> Result<(), Reject> {
    let known = area.commit_max <= area.op
        && area.checkpoint_op <= area.commit_max
        && area.view_start_op <= area.op;
    holds(known, Reject::Area)?;
    let headers = suffix(header, area.op, area.header_count, body)?;
    holds(headers.iter().all(|one| !one.is_blank()), Reject::Body)
}

/// Check the headers of a suffix: at least one, with ops descending by one from the head.
fn suffix(
    header: &Header,
    head: u64,
    count: u32,
    body: &[u8],
) -> Result<alloc::vec::Vec<PrepareHeader>, Reject> {
    holds((1..=SUFFIX_MAX).contains(&(count as usize)), Reject::Area)?;
    let headers = own_headers(header, body, count)?;
    let descends = headers
        .iter()
        .zip(0..)
        .all(|(one, below)| head.checked_sub(below) == Some(one.op()));
    holds(descends, Reject::Body)?;
    Ok(headers)
}

/// Decode the headers in the body of `header`'s frame, all of the same group.
fn own_headers(
    header: &Header,
    body: &[u8],
    count: u32,
) -> Result<alloc::vec::Vec<PrepareHeader>, Reject> {
    holds(body.len() == count as usize * HEADER_BYTES, Reject::Body)?;
    let headers = headers::decode(body)?;
    let own = headers
        .iter()
        .all(|one| one.is_blank() || is_of(one, header));
    holds(own, Reject::Body)?;
    Ok(headers)
}

fn is_of(prepare: &PrepareHeader, header: &Header) -> bool {
    prepare.cluster == header.cluster && prepare.group == header.group
}
