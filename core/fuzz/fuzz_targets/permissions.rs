//! Decoding of permissions. Input: the encoded permissions.
#![no_main]

use headrace_wire::permissions::Permissions;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(permissions) = Permissions::decode(bytes) {
        let mut encoded = Vec::new();
        permissions.encode(&mut encoded);
        assert!(encoded.len() <= bytes.len());
        assert_eq!(Permissions::decode(&encoded), Ok(permissions));
    }
});
