//! Header and body of a replica's frame. Input: command, the 128 bytes of its area, then the body. The target sets the
//! fields that all frames share, and the checksums, also of headers in a body.
#![no_main]

use headrace_buffer::Slice;
use headrace_vsr::frame::area::Area;
use headrace_vsr::frame::body::{headers, manifest, multi};
use headrace_vsr::frame::{
    CommandArea, HEADER_BYTES, Intake, PROTOCOL, PrepareFlags, checksum_body, checksum_header,
};
use libfuzzer_sys::fuzz_target;

const INTAKE: Intake = Intake {
    cluster: 0,
    message_size_max: 1 << 20,
};

fuzz_target!(|bytes: &[u8]| {
    let Some((&command, bytes)) = bytes.split_first() else {
        return;
    };
    let Some((area, body)) = bytes.split_first_chunk::<128>() else {
        return;
    };
    let mut body = body.to_vec();
    for element in body.chunks_exact_mut(HEADER_BYTES) {
        seal(element.first_chunk_mut().expect("256 bytes"));
    }
    let mut header = [0; HEADER_BYTES];
    let size = u32::try_from(HEADER_BYTES + body.len()).expect("small");
    header[16..32].copy_from_slice(&checksum_body(&body).to_le_bytes());
    header[48..52].copy_from_slice(&size.to_le_bytes());
    header[60] = command;
    header[62..64].copy_from_slice(&PROTOCOL.to_le_bytes());
    header[64] = u8::from(!matches!(command, 1 | 2));
    header[128..].copy_from_slice(area);
    seal(&mut header);

    let whole = Slice::from_vec([&header[..], &body].concat());
    let Ok(frame) = INTAKE.decode(&whole) else {
        return;
    };
    assert_eq!(frame.encode(), &*whole, "there is one encoding");
    assert_eq!(frame.header.command().code(), command);
    assert_eq!(frame.header.area.command(), frame.header.command());
    // Accepted fields can be read by the handler of the command.
    match frame.header.area {
        Area::DoViewChange(_) | Area::StartView(_) | Area::Headers(_) => {
            let list = headers::decode(&body).expect("checked");
            assert_eq!(headers::encode(&list), body);
        }
        Area::StateManifest(_) => {
            let (checkpoint, artifacts) = manifest::decode(&body).expect("checked");
            assert_eq!(manifest::encode(&checkpoint, &artifacts), body);
        }
        Area::Prepare(prepare) if prepare.flags.contains(PrepareFlags::MULTI) => {
            let requests = multi::decode(&frame.body).expect("checked");
            assert_eq!(multi::encode(&requests), body);
        }
        _ => {}
    }
});

fn seal(header: &mut [u8; HEADER_BYTES]) {
    let checksum = checksum_header(header);
    header[..16].copy_from_slice(&checksum.to_le_bytes());
}
