use proptest::prelude::*;

use super::*;

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

fn changed(from: &str, to: &str) -> Result<Option<Upgrade>, Refused> {
    assert!(REQUEST.contains(from), "{from}");
    read_request(REQUEST.replace(from, to).as_bytes(), &Origins::default())
}

/// The example of RFC 6455, section 1.3.
#[test]
fn the_example_of_the_standard() {
    let upgrade = read_request(REQUEST.as_bytes(), &Origins::default())
        .expect("valid")
        .expect("whole");
    assert_eq!(upgrade.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!(upgrade.consumed, REQUEST.len());
    let response = response(&upgrade);
    assert_eq!(
        check_response(&response, &upgrade.accept),
        Ok(Some(response.len()))
    );
}

#[test]
fn a_request_in_parts_is_waited_for() {
    for end in 0..REQUEST.len() {
        assert_eq!(
            read_request(&REQUEST.as_bytes()[..end], &Origins::default()),
            Ok(None)
        );
    }
}

/// GW-2: any path and host; lists, repetition and case as in HTTP; offered extensions and sub-protocols are not
/// accepted.
#[test]
fn requests_of_other_clients_are_accepted() {
    for (from, to) in [
        ("GET / ", "GET /any/path?query=1 "),
        ("server.example.com", "[::1]:8092"),
        ("Connection: Upgrade", "Connection: keep-alive,\tUPGRADE"),
        (
            "Connection: Upgrade",
            "connection: keep-alive\r\nCONNECTION: upgrade",
        ),
        ("Upgrade: websocket", "Upgrade: h2c, WebSocket"),
        ("Version: 13", "Version:  13 "),
        (
            "Host",
            "Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Extensions: permessage-deflate\r\nHost",
        ),
        ("Host", "Content-Length: 0\r\nHost"),
    ] {
        assert!(changed(from, to).expect(to).is_some(), "{to}");
    }
}

#[test]
fn non_upgrade_requests_are_refused() {
    for (from, to, refused) in [
        ("GET / HTTP/1.1", "\u{1}\0\0\0", Refused::NotHttp),
        ("HTTP/1.1", "HTTP/1.0", Refused::OldHttp),
        ("HTTP/1.1", "HTTP/2.0", Refused::OldHttp),
        ("GET", "POST", Refused::NotGet),
        ("Upgrade: websocket\r\n", "", Refused::NotUpgrade),
        ("Connection: Upgrade\r\n", "", Refused::NotUpgrade),
        (
            "Connection: Upgrade",
            "Connection: upgraded",
            Refused::NotUpgrade,
        ),
        ("websocket", "h2c", Refused::NotUpgrade),
        ("Version: 13", "Version: 8", Refused::Version),
        (
            "Host",
            "Sec-WebSocket-Version: 13\r\nHost",
            Refused::Version,
        ),
        ("Sec-WebSocket-Version: 13\r\n", "", Refused::Version),
        ("dGhlIHNhbXBsZSBub25jZQ==", "", Refused::Key),
        ("dGhlIHNhbXBsZSBub25jZQ==", "bm9uY2U=", Refused::Key),
        (
            "dGhlIHNhbXBsZSBub25jZQ==",
            "dGhlIHNhbXBsZSBub25jZSBvZiAyMA==",
            Refused::Key,
        ),
        (
            "dGhlIHNhbXBsZSBub25jZQ==",
            "dGhlIHNhbXBsZSBub25j!!==",
            Refused::Key,
        ),
        ("Host", "Content-Length: 5\r\nHost", Refused::Body),
        ("Host", "Transfer-Encoding: chunked\r\nHost", Refused::Body),
    ] {
        assert_eq!(changed(from, to), Err(refused), "{to}");
        let response = String::from_utf8(refusal(refused)).expect("text");
        let (head, body) = response.split_once("\r\n\r\n").expect("a body");
        assert!(head.starts_with("HTTP/1.1 4") || head.starts_with("HTTP/1.1 505"));
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{head}"
        );
    }
    let many = "X: y\r\n".repeat(FIELDS_MAX) + "Host";
    assert_eq!(changed("Host", &many), Err(Refused::TooLarge));
}

#[test]
fn client_requires_a_valid_accept_key() {
    let (request, accept) = request("localhost:8092", "/", [7; 16]);
    let upgrade = read_request(&request, &Origins::default())
        .expect("valid")
        .expect("whole");
    assert_eq!(upgrade.accept, accept);
    let good = String::from_utf8(response(&upgrade)).expect("text");
    assert_eq!(
        check_response(&good.as_bytes()[..good.len() - 1], &accept),
        Ok(None)
    );
    let check = |response: &str| check_response(response.as_bytes(), &accept);
    assert_eq!(
        check(&good.replace(&accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")),
        Err(BadResponse::Proof)
    );
    let extended = good.replace(
        "Upgrade: w",
        "Sec-WebSocket-Extensions: permessage-deflate\r\nUpgrade: w",
    );
    assert_eq!(check(&extended), Err(BadResponse::Proof));
    assert_eq!(
        check("HTTP/1.1 403 Forbidden\r\n\r\n"),
        Err(BadResponse::Status(403))
    );
    assert_eq!(check("\u{8}\0\0\0\0\0\0\0"), Err(BadResponse::NotHttp));
}

proptest! {
    #[test]
    fn nothing_that_arrives_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_request(&bytes, &Origins::default());
        let _ = check_response(&bytes, "");
    }

    #[test]
    fn a_damaged_request_never_makes_it_panic(at in 0..REQUEST.len(), byte in any::<u8>()) {
        let mut bytes = REQUEST.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = read_request(&bytes, &Origins::default());
    }
}

/// GW-2: a page in a browser is refused unless its origin is allowed; its address may be that of this server, because a
/// name of the page's own may resolve to it.
#[test]
fn pages_may_connect_if_their_origin_is_allowed() {
    let listed = [
        "https://Shop.example/".to_owned(),
        "http://localhost:5173".to_owned(),
    ];
    let any = Origins::new(&["*".to_owned()]);
    for (named, is_listed) in [
        ("", true),
        ("Origin: https://shop.example\r\n", true),
        ("Origin: http://localhost:5173\r\n", true),
        ("Origin: http://shop.example\r\n", false),
        ("Origin: http://server.example.com\r\n", false),
        ("Origin: null\r\n", false),
        (
            "origin: https://shop.example\r\nOrigin: https://evil.example\r\n",
            false,
        ),
    ] {
        let request = REQUEST.replace("Host", &format!("{named}Host"));
        let found = read_request(request.as_bytes(), &Origins::new(&listed));
        assert_eq!(found.is_ok(), is_listed, "{named}");
        let found = read_request(request.as_bytes(), &Origins::default());
        assert_eq!(found.is_ok(), named.is_empty(), "{named}");
        assert!(read_request(request.as_bytes(), &any).is_ok(), "{named}");
    }
    let refused = refusal(Refused::Origin);
    assert!(refused.starts_with(b"HTTP/1.1 403 Forbidden\r\n"));
}
