//! Status codes: any number. Input: the start of a response.
#![no_main]

use headrace_wire::frame::ResponseHeader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(header) = bytes.first_chunk() else {
        return;
    };
    let status = ResponseHeader::parse(header).status;
    assert_eq!(
        status.info().is_some(),
        status.name().is_some() && !status.is_ok()
    );
    assert!(!status.description().is_empty());
    assert!(!status.to_string().is_empty());
    assert!(!status.is_retryable() || status.info().is_some());
});
