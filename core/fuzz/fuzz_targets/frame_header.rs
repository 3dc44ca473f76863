//! The header of a replica's frame. Input: the header without its checksum, which the target sets.
#![no_main]

use headrace_vsr::frame::{HEADER_BYTES, Header, Intake, Reject, checksum_header};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut header = [0; HEADER_BYTES];
    for (place, byte) in header[16..].iter_mut().zip(bytes) {
        *place = *byte;
    }
    assert_eq!(
        Header::decode(&header) as Result<Header, _>,
        Err(Reject::HeaderChecksum)
    );
    let checksum = checksum_header(&header);
    header[..16].copy_from_slice(&checksum.to_le_bytes());

    let intake = Intake {
        cluster: u128::from_le_bytes(*header[32..].first_chunk().expect("within the header")),
        message_size_max: 1 << 20,
    };
    if let Ok(size) = intake.frame_size(&header) {
        assert!((256..=1 << 20).contains(&size));
    }
    let _ = intake.check(&header);

    let Ok(decoded): Result<Header, _> = Header::decode(&header) else {
        return;
    };
    assert_eq!(decoded.encode(), header, "there is one encoding");
    assert_eq!(decoded.with_checksum(), decoded);
    if let Some(prepare) = decoded.as_prepare() {
        assert_eq!(prepare.encode(), header);
    }
});
