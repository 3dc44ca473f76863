//! Tickets, from peers without and with the secret. Input: the text to verify, or the contents to sign.
#![no_main]

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use headrace_ticket::{Key, Ticket};
use libfuzzer_sys::fuzz_target;
use ring::hmac;

const SECRET: &[u8] = b"0123456789abcdef";

/// Sign the bytes in the form of a ticket.
fn signed(said: &[u8]) -> String {
    let sign =
        |key: &[u8], bytes: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), bytes);
    let key = sign(SECRET, b"headrace ticket v1\0test");
    let whole = [b"hrt1.", said].concat();
    let signature = sign(key.as_ref(), &whole);
    let whole = [said, signature.as_ref()].concat();
    format!("hrt1.{}", URL_SAFE_NO_PAD.encode(whole))
}

fuzz_target!(|bytes: &[u8]| {
    let key = Key::derive(SECRET, "test");
    if let Ok(text) = core::str::from_utf8(bytes) {
        assert!(
            Ticket::verify(text, &key, 0).is_err(),
            "a signature cannot be guessed"
        );
    }
    if let Ok(ticket) = Ticket::verify(&signed(bytes), &key, 0) {
        let again = ticket
            .sign(&key)
            .expect("its name has a length that is allowed");
        assert_eq!(Ticket::verify(&again, &key, 0), Ok(ticket));
    }
});
