//! User headers: structure, types, and re-encoding. Input: the block.
#![no_main]

use headrace_wire::headers;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let pairs: Result<Vec<_>, _> = headers::pairs(bytes).collect();
    for pair in headers::pairs(bytes).flatten() {
        let (Ok(key), Ok(value)) = (pair.key.value(), pair.value.value()) else {
            continue;
        };
        headers::push(key, value, &mut Vec::new()).expect("what was read can be written");
    }
    if let Ok(pairs) = pairs {
        let mut encoded = Vec::new();
        headers::encode(pairs, &mut encoded);
        assert_eq!(encoded, bytes);
    }
});
